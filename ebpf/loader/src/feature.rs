//! What the probes can see, what each part needs, and whether it is on.

use crate::capability::Capability;

/// A part of the host that can be looked at, on or off by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// Bytes and packets of each NIC.
    Nics,
    /// Round trip times of our TCP connections.
    RoundTrips,
    /// Retransmits and resets.
    TcpEvents,
    /// Dropped packets by reason.
    Drops,
    /// Latency of block devices.
    Blocks,
    /// Latency of our io_uring requests.
    Urings,
    /// How long our threads wait for a core.
    Tasks,
}

/// Whether a feature works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeatureState {
    /// Attached and counting.
    On,
    /// Would work, but is not wanted.
    Unused {
        /// Why.
        reason: String,
        /// What changes that.
        remedy: String,
    },
    /// Does not work here.
    Off {
        /// Why.
        reason: String,
        /// What changes that.
        remedy: String,
    },
}

impl FeatureState {
    /// Whether it counts.
    pub fn works(&self) -> bool {
        matches!(self, Self::On)
    }
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Nics,
        Self::RoundTrips,
        Self::TcpEvents,
        Self::Drops,
        Self::Blocks,
        Self::Urings,
        Self::Tasks,
    ];

    /// Value of the `probe` label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Nics => "nics",
            Self::RoundTrips => "round_trips",
            Self::TcpEvents => "tcp_events",
            Self::Drops => "drops",
            Self::Blocks => "blocks",
            Self::Urings => "urings",
            Self::Tasks => "tasks",
        }
    }

    /// What it shows, in words.
    pub fn description(self) -> &'static str {
        match self {
            Self::Nics => "bytes and packets per NIC",
            Self::RoundTrips => {
                "round trip times per NIC of TCP connections that were opened since the agent started, in the control \
                 groups of our processes; where one is in the root group, of all that is there"
            }
            Self::TcpEvents => "TCP retransmits and resets per NIC",
            Self::Drops => "dropped packets by reason",
            Self::Blocks => "queue and device latency per disk",
            Self::Urings => "io_uring latency of our processes, a sample",
            Self::Tasks => "waits for a core and sleeps of our shards",
        }
    }

    /// The kernel's side of it.
    pub fn hook(self) -> &'static str {
        match self {
            Self::Nics => "tcx",
            Self::RoundTrips => "cgroup/sock_ops",
            Self::TcpEvents => "tp_btf/tcp_retransmit_skb, tcp_send_reset, tcp_receive_reset",
            Self::Drops => "tp_btf/kfree_skb",
            Self::Blocks => "tp_btf/block_rq_issue, block_rq_complete",
            Self::Urings => "tp_btf/io_uring_submit_req, io_uring_complete",
            Self::Tasks => "tp_btf/sched_switch",
        }
    }

    /// Programs and the tracepoints they sit on; the others are attached to something that comes
    /// and goes.
    pub(crate) fn tracepoints(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::TcpEvents => &[
                ("tcp_retransmit", "tcp_retransmit_skb"),
                ("tcp_reset_sent", "tcp_send_reset"),
                ("tcp_reset_received", "tcp_receive_reset"),
            ],
            Self::Drops => &[("packet_drop", "kfree_skb")],
            Self::Blocks => {
                &[("block_issue", "block_rq_issue"), ("block_complete", "block_rq_complete")]
            }
            Self::Urings => {
                &[("uring_submit", "io_uring_submit_req"), ("uring_complete", "io_uring_complete")]
            }
            Self::Tasks => &[("task_switch", "sched_switch")],
            Self::Nics | Self::RoundTrips => &[],
        }
    }

    /// All its programs.
    pub(crate) fn programs(self) -> Vec<&'static str> {
        match self {
            Self::Nics => vec!["nic_ingress", "nic_egress"],
            Self::RoundTrips => vec!["tcp_round_trip"],
            traced => traced.tracepoints().iter().map(|(program, _)| *program).collect(),
        }
    }

    /// What the kernel wants of a process that uses it.
    pub fn capabilities(self) -> &'static [Capability] {
        match self {
            Self::Nics => &[Capability::Bpf, Capability::NetAdmin],
            // The kernel shows the fields of a socket to those only who may trace.
            Self::RoundTrips => &[Capability::Bpf, Capability::Perfmon, Capability::NetAdmin],
            _ => &[Capability::Bpf, Capability::Perfmon],
        }
    }

    /// The state of a feature for which these capabilities are not enough.
    pub(crate) fn lacking(self, held: &[Capability]) -> Option<FeatureState> {
        let needed = self.capabilities().iter();
        let lacking: Vec<_> = needed.filter(|needed| !held.contains(needed)).collect();
        if lacking.is_empty() {
            return None;
        }
        let names: Vec<_> = lacking.iter().map(ToString::to_string).collect();
        let file = names.join(",").to_lowercase();
        let names = names.join(" ");
        Some(FeatureState::Off {
            reason: format!("the process lacks {names}"),
            remedy: format!(
                "run as root, or give it what it lacks: `setcap {file}+ep` on the program, \
                 AmbientCapabilities={names} in the unit, capabilities.add in the pod"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_capability_is_named_with_its_remedy() {
        let held = [Capability::Bpf, Capability::Perfmon];
        assert_eq!(Feature::Blocks.lacking(&held), None);
        let Some(FeatureState::Off { reason, remedy }) = Feature::Nics.lacking(&held) else {
            panic!("it must be off");
        };
        assert_eq!(reason, "the process lacks CAP_NET_ADMIN");
        assert!(remedy.contains("AmbientCapabilities=CAP_NET_ADMIN"));
    }

    #[test]
    fn labels_are_distinct() {
        let mut labels = Feature::ALL.map(Feature::label).to_vec();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), Feature::ALL.len());
    }
}
