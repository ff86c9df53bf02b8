//! The three servers: settings, logs, serving. Invariant: nothing is served before its settings and
//! its log are in order.

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::logging::{self, LogGuard};
use crate::output;
use crate::signals::block_stop_signals;
use nix::sys::signal::SigSet;
use perigee_flags::{LogSettings, ProcessEnvironment};
use perigee_metadata::MetadataServer;
use perigee_metadata::config::{METADATA_SERVER, MetadataServerConfig, MetadataStart};
use perigee_node::{NodeConfig, NodeStart, config::table::NODE};
use perigee_service::config::{Listen, MasterConfig, MasterStart, table::MASTER};
use perigee_settings::Variables;
use std::io;

/// Runs a master until it is stopped.
pub(crate) fn master(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    match MasterConfig::load(&invocation.arguments, environment)? {
        MasterStart::Print(text) => print(invocation, MASTER.name, &text),
        MasterStart::Serve(config) => {
            serve(invocation, environment, &config.log, |_| Ok(perigee_service::run(&config)?))
        }
    }
}

/// Runs a node until it is stopped.
pub(crate) fn node(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    match NodeConfig::load(&invocation.arguments, environment)? {
        NodeStart::Print(text) => print(invocation, NODE.name, &text),
        NodeStart::Serve(config) => {
            serve(invocation, environment, &config.log, |_| Ok(perigee_node::run(&config)?))
        }
    }
}

/// Runs a metadata service until it is stopped.
pub(crate) fn metadata(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    match MetadataServerConfig::load(&invocation.arguments, environment)? {
        MetadataStart::Print(text) => print(invocation, METADATA_SERVER.name, &text),
        MetadataStart::Serve(config) => {
            serve(invocation, environment, &config.log, |signals| serve_metadata(&config, signals))
        }
    }
}

fn serve_metadata(config: &MetadataServerConfig, signals: SigSet) -> Result<(), Failure> {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let listen = Listen { host: config.host.clone(), port: config.port };
    let service = MetadataServer::start(listen.socket_addr()?)?;
    tracing::info!(http = %service.local_addr(), "Ready");
    let signal = signals.wait().map_err(io::Error::from)?;
    tracing::info!(%signal, "Stopping");
    service.stop();
    Ok(())
}

/// Starts the log, serves, and leaves nothing unwritten behind.
pub(crate) fn serve(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
    log: &LogSettings,
    work: impl FnOnce(SigSet) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let signals = block_stop_signals()?;
    let file_name = invocation.program.replace(' ', "_");
    let guard: LogGuard = logging::start(log, &file_name, environment)?;
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    perigee_settings::warn_once(&Variables::new(&variable));
    if let Some(pod) = environment.get("POD_NAME") {
        let namespace = environment.get("POD_NAMESPACE").unwrap_or_default();
        tracing::info!(pod, namespace, "This pod");
    }
    let ended = work(signals);
    if let (Err(failure), Some(_)) = (&ended, &log.directory) {
        // Standard error gets it anyway; the file should have it too.
        tracing::error!("{failure}");
    }
    drop(guard);
    ended
}

/// Prints a help or version text under the name the program was started as.
fn print(invocation: &Invocation, table_name: &str, text: &str) -> Result<(), Failure> {
    let rest = text.strip_prefix(table_name).unwrap_or(text);
    Ok(output::print(&format!("{}{rest}", invocation.program))?)
}
