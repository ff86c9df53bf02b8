//! Where snapshots come from: an agent, or a reading of this host by this process.

use crate::asked_agent::AskedAgent;
use crate::failure::Failure;
use perigee_agent::{AgentOptions, Collector, Snapshot};

pub(super) enum SnapshotSource {
    /// Asks an agent.
    Agent(AskedAgent),
    /// Reads the host.
    Own(Box<Collector>),
}

impl SnapshotSource {
    /// The agent that was named, else the one on this host, else this process itself.
    pub(super) fn open(agent: Option<&str>) -> Result<Self, Failure> {
        if let Some(agent) = agent {
            let source = Self::Agent(AskedAgent::at(agent));
            return snapshot(&AskedAgent::at(agent)).map(|_| source).map_err(|reason| {
                let address = agent.escape_debug().take(80).collect();
                Failure::NoAgent { address, reason }
            });
        }
        let usual = AskedAgent::of_this_host();
        if snapshot(&usual).is_ok() {
            return Ok(Self::Agent(usual));
        }
        let options = AgentOptions { state: None, ..AgentOptions::default() };
        Ok(Self::Own(Box::new(Collector::new(options))))
    }

    /// What it shows now.
    pub(super) fn read(&mut self) -> Result<Snapshot, String> {
        match self {
            Self::Agent(agent) => snapshot(agent),
            Self::Own(collector) => Ok(collector.collect()),
        }
    }

    /// Where the numbers come from, for the title.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Agent(agent) => agent.place(),
            Self::Own(..) => "read here, no agent",
        }
    }
}

fn snapshot(agent: &AskedAgent) -> Result<Snapshot, String> {
    serde_json::from_str(&agent.ask("/snapshot.json")?).map_err(|error| error.to_string())
}
