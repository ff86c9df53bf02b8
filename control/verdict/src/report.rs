//! What an agent reports of its host.

use crate::limits::{
    ADDRESSES_MAX, EVIDENCE_BYTES_MAX, NAME_BYTES_MAX, REPORTED_LINKS_MAX, REPORTED_NICS_MAX,
    REPORTED_SUSPECTS_MAX,
};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What an agent reports of its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Name of the host.
    pub host: String,
    /// NICs of the host, with their addresses.
    pub nics: Vec<ReportedNic>,
    /// Connections to others.
    pub links: Vec<ReportedLink>,
    /// What the agent of the host names as slow.
    pub suspects: Vec<ReportedSuspect>,
    /// Where other hosts find the agent; none if only its own host does.
    #[serde(default)]
    pub port: Option<u16>,
}

/// A NIC and its addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportedNic {
    /// Name of the interface or RDMA device.
    pub name: String,
    /// IP addresses that peers may use for it.
    pub addresses: Vec<IpAddr>,
    /// The switch it hangs on, if that is known.
    #[serde(default)]
    pub switch: Option<String>,
}

/// Connections between a NIC and a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportedLink {
    /// Name of the NIC.
    pub nic: String,
    /// The peer's address.
    pub peer: String,
    /// Round trip, if it is known.
    pub round_trip_ns: Option<u64>,
    /// Segments sent again in the last seconds.
    pub sent_again: u64,
}

/// A suspect of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportedSuspect {
    /// `nic`, `peer`, `disk` or `shard`.
    pub kind: String,
    /// Its name, as the agent knows it.
    pub name: String,
    /// What makes it one; empty from agents that do not say.
    #[serde(default)]
    pub cause: String,
    /// The numbers.
    pub evidence: String,
    /// Milliseconds since 1970.
    pub since_ms: u64,
}

impl AgentReport {
    /// Cut to what is taken of one host.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.nics.truncate(REPORTED_NICS_MAX);
        self.links.truncate(REPORTED_LINKS_MAX);
        self.suspects.truncate(REPORTED_SUSPECTS_MAX);
        shorten(&mut self.host, NAME_BYTES_MAX);
        for nic in &mut self.nics {
            shorten(&mut nic.name, NAME_BYTES_MAX);
            nic.addresses.truncate(ADDRESSES_MAX);
            nic.switch.iter_mut().for_each(|name| shorten(name, NAME_BYTES_MAX));
        }
        for link in &mut self.links {
            shorten(&mut link.nic, NAME_BYTES_MAX);
            shorten(&mut link.peer, NAME_BYTES_MAX);
        }
        for suspect in &mut self.suspects {
            shorten(&mut suspect.kind, NAME_BYTES_MAX);
            shorten(&mut suspect.name, NAME_BYTES_MAX);
            shorten(&mut suspect.cause, NAME_BYTES_MAX);
            shorten(&mut suspect.evidence, EVIDENCE_BYTES_MAX);
        }
        self
    }

    /// What it says that counts. While a thread of its own has no core, the time that exchanges
    /// take beside what their peers say themselves may be that thread's.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &ReportedSuspect> {
        let is_starved = self.suspects.iter().any(|one| one.kind == "shard");
        self.suspects.iter().filter(move |one| !(is_starved && one.cause == "still"))
    }

    /// Whether it names this.
    pub(crate) fn suspect(&self, kind: &str, name: &str) -> Option<&ReportedSuspect> {
        self.counted().find(|one| one.kind == kind && one.name == name)
    }
}

impl ReportedSuspect {
    /// Whether it is the suspect's own doing, and not that of the way to it.
    pub(crate) fn is_own(&self) -> bool {
        matches!(&*self.cause, "core" | "copy" | "disk" | "still")
    }

    /// Whether the peer itself said so, by its own clock.
    pub(crate) fn is_said_by_peer(&self) -> bool {
        self.is_own() && self.cause != "still"
    }

    /// Whether it is about packets that do not arrive: then a peer whose answers are lost seems to
    /// stand still.
    pub(crate) fn is_of_loss(&self) -> bool {
        !self.is_own() && !self.is_of_way()
    }

    /// Whether it is about the time that bytes take on their way, which a program at the far end
    /// that stands still makes longer.
    pub(crate) fn is_of_way(&self) -> bool {
        matches!(&*self.cause, "" | "unknown" | "wire")
    }
}

/// Cuts at the last whole character within so many bytes.
fn shorten(text: &mut String, bytes: usize) {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_cut_to_its_bounds() {
        let report = AgentReport {
            host: "ä".repeat(NAME_BYTES_MAX),
            links: vec![ReportedLink::default(); REPORTED_LINKS_MAX * 2],
            suspects: vec![ReportedSuspect::default(); REPORTED_SUSPECTS_MAX * 2],
            nics: vec![ReportedNic::default(); REPORTED_NICS_MAX * 2],
            port: None,
        };
        let cut = report.bounded();
        assert_eq!(cut.host.len(), NAME_BYTES_MAX);
        assert_eq!(cut.links.len(), REPORTED_LINKS_MAX);
        assert_eq!(cut.suspects.len(), REPORTED_SUSPECTS_MAX);
        assert_eq!(cut.nics.len(), REPORTED_NICS_MAX);
    }
}
