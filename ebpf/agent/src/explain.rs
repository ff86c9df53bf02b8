//! What can be seen on this host and what cannot, and why: one table.

use perigee_probe_loader::{Feature, FeatureState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One source of numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceState {
    /// Short name.
    pub name: String,
    /// `on`, `partly`, `unused` (works, but is not wanted) or `off`.
    pub state: String,
    /// What it shows.
    pub shows: String,
    /// Where the numbers come from.
    pub source: String,
    /// Why it is off or shows a part only; empty otherwise.
    pub reason: String,
    /// What changes that; empty otherwise.
    pub remedy: String,
}

impl SourceState {
    fn on(name: &str, shows: &str, source: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: "on".to_owned(),
            shows: shows.to_owned(),
            source: source.to_owned(),
            reason: String::new(),
            remedy: String::new(),
        }
    }

    fn off(mut self, reason: &str, remedy: &str) -> Self {
        self.state = "off".to_owned();
        self.reason = reason.to_owned();
        self.remedy = remedy.to_owned();
        self
    }

    fn troubled(self, trouble: &ProbeLimit) -> Self {
        let mut row = self.off(&trouble.reason, trouble.remedy);
        if !trouble.is_total {
            "partly".clone_into(&mut row.state);
        }
        row
    }
}

/// What keeps a probe that works from seeing everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeLimit {
    pub(crate) reason: String,
    pub(crate) remedy: &'static str,
    /// Whether nothing at all is seen.
    pub(crate) is_total: bool,
}

/// The table: sources without privilege first, then the probes.
pub(crate) fn sources(
    states: &BTreeMap<Feature, FeatureState>,
    troubles: &BTreeMap<Feature, ProbeLimit>,
    rdma_ports: usize,
    pages: usize,
    hidden: Option<&ProbeLimit>,
) -> Vec<SourceState> {
    let mut table = vec![SourceState::on(
        "interfaces",
        "bytes, packets, errors and speed of each network interface",
        "/sys/class/net/*/statistics",
    )];
    let ports = SourceState::on(
        "rdma_ports",
        "bytes, packets and congestion of each RDMA port",
        "/sys/class/infiniband/*/ports/*/counters, hw_counters",
    );
    table.push(match rdma_ports {
        0 => ports.off("this host has no RDMA device", "load its driver: see perigee doctor"),
        _ => ports,
    });
    let activity = SourceState::on(
        "activity",
        "operations, bytes, latency, errors and queue depth by NIC, route and direction",
        "pages that our processes keep in shared memory",
    );
    let sockets = SourceState::on(
        "sockets",
        "round trips, retransmits and delivery rate of our TCP connections by NIC and peer",
        "TCP_INFO that our processes read of their own sockets, in the same pages",
    );
    let threads = SourceState::on(
        "threads",
        "how long threads of our processes ran and how long they waited for a core",
        "/proc of the processes that hold the pages' locks (/proc/locks)",
    );
    let of_processes = |row: SourceState| match pages {
        0 => row.off(
            "no process of ours is seen",
            "start a node or client here, and share /dev/shm with its container",
        ),
        _ => row,
    };
    let batches = SourceState::on(
        "batches",
        "slow batches, and latency by NIC, peer and tenant",
        "the latest batches of each thread, in the same pages",
    );
    table.push(of_processes(activity));
    table.push(of_processes(sockets));
    table.push(of_processes(batches));
    table.push(match hidden {
        Some(hidden) => threads.troubled(hidden),
        None => of_processes(threads),
    });
    table.extend(
        states.iter().map(|(feature, state)| probe_state(*feature, state, troubles.get(feature))),
    );
    table
}

fn probe_state(
    feature: Feature,
    state: &FeatureState,
    trouble: Option<&ProbeLimit>,
) -> SourceState {
    let source = format!("eBPF {}", feature.hook());
    let mut row = SourceState::on(feature.label(), feature.description(), &source);
    match (state, trouble) {
        (FeatureState::Off { reason, remedy }, _) => return row.off(reason, remedy),
        (FeatureState::Unused { reason, remedy }, _) => {
            row = row.off(reason, remedy);
            "unused".clone_into(&mut row.state);
        }
        (_, Some(trouble)) => return row.troubled(trouble),
        (FeatureState::On, None) => {}
    }
    row
}

/// The table for people.
pub fn explain_text(sources: &[SourceState]) -> String {
    let mut text = String::new();
    for row in sources {
        let _ = writeln!(text, "{:<12} {:<6} {}", row.name, row.state, row.shows);
        let _ = writeln!(text, "{:19} from {}", "", row.source);
        if !row.reason.is_empty() {
            let _ = writeln!(text, "{:19} {} because {}", "", row.state, row.reason);
            let _ = writeln!(text, "{:19} to change that: {}", "", row.remedy);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_probe_loader::ProbeError;

    #[test]
    fn every_source_that_is_off_says_why_and_what_to_do() {
        let table = sources(&ProbeError::NotBuilt.states(), &BTreeMap::new(), 0, 0, None);
        assert_eq!(table.len(), 6 + Feature::ALL.len());
        let off: Vec<_> = table.iter().filter(|row| row.state == "off").collect();
        assert_eq!(off.len(), 5 + Feature::ALL.len());
        assert!(off.iter().all(|row| !row.reason.is_empty() && !row.remedy.is_empty()));
        let text = explain_text(&table);
        assert!(text.contains("off because This build has no eBPF probes"));
    }

    #[test]
    fn what_is_there_is_on() {
        let table = sources(&BTreeMap::new(), &BTreeMap::new(), 2, 1, None);
        assert!(table[..6].iter().all(|row| row.state == "on"));
    }

    #[test]
    fn what_a_probe_cannot_see_is_said_also_when_it_is_attached() {
        let states = BTreeMap::from([
            (Feature::RoundTrips, FeatureState::On),
            (Feature::Tasks, FeatureState::On),
        ]);
        let trouble = |is_total| ProbeLimit {
            reason: "it is hidden".to_owned(),
            remedy: "show it",
            is_total,
        };
        let troubles = BTreeMap::from([
            (Feature::RoundTrips, trouble(false)),
            (Feature::Tasks, trouble(true)),
        ]);
        let table = sources(&states, &troubles, 1, 1, Some(&trouble(false)));
        assert_eq!(
            [5, 6, 7].map(|row: usize| table[row].state.as_str()),
            ["partly", "partly", "off"]
        );
        let text = explain_text(&table);
        assert!(text.contains("partly because it is hidden"));
        assert!(text.contains("to change that: show it"));
    }
}
