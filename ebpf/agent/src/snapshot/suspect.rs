//! Who is slow or loses, what makes it a suspect, and the numbers behind that.

use serde::{Deserialize, Serialize};

/// What can be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspectKind {
    /// A network interface or an RDMA port.
    Nic,
    /// A thread of ours that does not get its core.
    Shard,
    /// A block device.
    Disk,
    /// Another host.
    Peer,
}

impl SuspectKind {
    /// Value of the `kind` label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Nic => "nic",
            Self::Shard => "shard",
            Self::Disk => "disk",
            Self::Peer => "peer",
        }
    }
}

/// What makes a suspect one, as far as its signs tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspectCause {
    /// An older agent, which did not say.
    #[default]
    Unknown,
    /// It is ready, and gets no core.
    Core,
    /// It copies and sums.
    Copy,
    /// Its disks.
    Disk,
    /// It stands still, for a reason that neither it nor the kernel tells.
    Still,
    /// The time that bytes take on the way.
    Wire,
    /// Segments that are lost.
    Loss,
    /// Segments that meet a queue.
    Queue,
    /// Packets with wrong bits.
    Damage,
    /// Packets for which there is no buffer.
    Discard,
    /// A link that is down, or runs at a lower speed.
    Link,
}

impl SuspectCause {
    /// Value of the `cause` label, and the word of reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Core => "core",
            Self::Copy => "copy",
            Self::Disk => "disk",
            Self::Still => "still",
            Self::Wire => "wire",
            Self::Loss => "loss",
            Self::Queue => "queue",
            Self::Damage => "damage",
            Self::Discard => "discard",
            Self::Link => "link",
        }
    }
}

/// A subject that is slower than others of its kind and than its baseline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// What it is.
    pub kind: SuspectKind,
    /// NIC, disk, peer, or `program/thread`.
    pub name: String,
    /// What makes it one.
    #[serde(default)]
    pub cause: SuspectCause,
    /// The numbers behind the verdict, for people.
    pub evidence: String,
    /// Milliseconds since 1970 of the first bad turn.
    pub since_ms: u64,
    /// What it takes now, in nanoseconds.
    pub now_ns: u64,
    /// What it takes usually, or else what the others take.
    pub usual_ns: u64,
}

/// A verdict that no longer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastSuspect {
    /// Who it was, with the evidence of its last turn.
    #[serde(flatten)]
    pub suspect: Suspect,
    /// Milliseconds since 1970 of the turn that cleared it, or of the last one before the agent
    /// ended.
    pub until_ms: u64,
}
