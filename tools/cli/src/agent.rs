//! `perigee agent`: what this host can show, or shows. Invariant: it starts on any host; what
//! cannot be seen is named with its reason.

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::{daemon, output};
use perigee_agent::{Agent, AgentConfig, AgentStart, Collector, OutputFormat, explain_text};
use perigee_flags::ProcessEnvironment;
use std::io;

/// Serves until it is stopped, or prints the table of sources.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let config = match AgentConfig::load(&invocation.arguments, environment)? {
        AgentStart::Print(text) => return Ok(output::print(&text)?),
        AgentStart::Serve(config) => config,
    };
    if let Some(format) = config.explain {
        return explain(*config, format);
    }
    let log = config.log.clone();
    daemon::serve(invocation, environment, &log, |signals| {
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        let agent = Agent::start(config.options)?;
        if let Some(address) = agent.address() {
            tracing::info!(page = %format!("http://{address}/"), "Ready");
        }
        let signal = signals.wait().map_err(io::Error::from)?;
        tracing::info!(%signal, "Stopping");
        agent.stop();
        Ok(())
    })
}

fn explain(config: AgentConfig, format: OutputFormat) -> Result<(), Failure> {
    let mut options = config.options;
    options.state = None;
    options.looks_only = true;
    let snapshot = Collector::new(options).collect();
    let text = match format {
        OutputFormat::Text => explain_text(&snapshot.sources),
        OutputFormat::Json => {
            serde_json::to_string_pretty(&snapshot.sources).unwrap_or_default() + "\n"
        }
    };
    Ok(output::print(&text)?)
}
