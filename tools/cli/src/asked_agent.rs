//! An agent that is asked over HTTP. Invariant: each question has a deadline, and its answer a
//! bound.

use crate::http_answer::http_answer;
use crate::limits::AGENT_ANSWER_BYTES_MAX;
use perigee_agent::AgentOptions;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Longest wait for an agent.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// Where an agent is, and how it is asked.
#[derive(Clone, Debug)]
pub(crate) struct AskedAgent {
    place: String,
}

impl AskedAgent {
    /// The agent at `HOST`, `HOST:PORT`, with or without `http://`, or an IPv6 address with or without brackets and port.
    pub(crate) fn at(agent: &str) -> Self {
        Self::with_port(agent, AgentOptions::PORT)
    }

    /// The same with another usual port: a master is asked in the same way.
    pub(crate) fn with_port(agent: &str, port: u16) -> Self {
        let agent = agent.strip_prefix("http://").unwrap_or(agent).trim_end_matches('/');
        let host = match agent.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => agent.to_owned(),
        };
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let place = if has_port { host } else { format!("{host}:{port}") };
        Self { place }
    }

    /// The usual one of this host.
    pub(crate) fn of_this_host() -> Self {
        Self::at("127.0.0.1")
    }

    /// `HOST:PORT`.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// What it answers to a path such as `/snapshot.json`.
    ///
    /// # Errors
    /// No answer in time, or none that is good; in words.
    pub(crate) fn ask(&self, path: &str) -> Result<String, String> {
        let url = format!("http://{}{path}", self.place);
        http_answer(&url, ANSWER_DEADLINE, AGENT_ANSWER_BYTES_MAX)
    }
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
            ("http://gpu-7:80/", "gpu-7:80"),
            ("fe80::1", "[fe80::1]:9305"),
            ("[fe80::1]", "[fe80::1]:9305"),
            ("[fe80::1]:80", "[fe80::1]:80"),
        ] {
            assert_eq!(AskedAgent::at(agent).place(), place);
        }
    }
}
