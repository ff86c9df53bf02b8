//! Where snapshots come from: an agent, or a reading of this host by this process.

use crate::failure::Failure;
use perigee_agent::{AgentOptions, Collector, Snapshot};
use std::net::Ipv6Addr;
use std::time::Duration;

/// Longest wait for an agent.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// A source of snapshots.
pub(super) enum SnapshotSource {
    /// Asks an agent.
    Agent(String),
    /// Reads the host.
    Own(Box<Collector>),
}

impl SnapshotSource {
    /// The agent that was named, else the one on this host, else this process itself.
    pub(super) fn open(agent: Option<&str>) -> Result<Self, Failure> {
        if let Some(agent) = agent {
            let source = Self::Agent(url(agent));
            return fetch(&url(agent)).map(|_| source).map_err(|reason| {
                let address = agent.escape_debug().take(80).collect();
                Failure::NoAgent { address, reason }
            });
        }
        let usual = url("127.0.0.1");
        if fetch(&usual).is_ok() {
            return Ok(Self::Agent(usual));
        }
        let options = AgentOptions { state: None, ..AgentOptions::default() };
        Ok(Self::Own(Box::new(Collector::new(options))))
    }

    /// What it shows now.
    pub(super) fn read(&mut self) -> Result<Snapshot, String> {
        match self {
            Self::Agent(url) => fetch(url),
            Self::Own(collector) => Ok(collector.collect()),
        }
    }

    /// Where the numbers come from, for the title.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Agent(url) => {
                url.trim_start_matches("http://").trim_end_matches("/snapshot.json")
            }
            Self::Own(..) => "read here, no agent",
        }
    }
}

/// Where an agent is asked: `HOST`, `HOST:PORT`, or an IPv6 address with or without brackets and
/// port.
fn url(agent: &str) -> String {
    let host = match agent.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) => agent.to_owned(),
    };
    let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
    match has_port {
        true => format!("http://{host}/snapshot.json"),
        false => format!("http://{host}:{}/snapshot.json", AgentOptions::PORT),
    }
}

fn fetch(url: &str) -> Result<Snapshot, String> {
    let config = ureq::Agent::config_builder().timeout_global(Some(ANSWER_DEADLINE));
    let agent = ureq::Agent::new_with_config(config.build());
    let mut answer = agent.get(url).call().map_err(|error| error.to_string())?;
    let text = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_without_a_port_is_asked_on_the_agents_own() {
        for (agent, place) in [
            ("127.0.0.1", "127.0.0.1:9305"),
            ("gpu-7", "gpu-7:9305"),
            ("gpu-7:80", "gpu-7:80"),
            ("fe80::1", "[fe80::1]:9305"),
            ("[fe80::1]", "[fe80::1]:9305"),
            ("[fe80::1]:80", "[fe80::1]:80"),
        ] {
            assert_eq!(url(agent), format!("http://{place}/snapshot.json"));
        }
    }
}
