//! A sample of a resource, and what it is compared with. Invariant: a higher value is worse.

use super::series::median;
use crate::snapshot::{SuspectCause, SuspectKind};
use std::collections::BTreeMap;

/// Half of our threads waiting this long in a second for a core make every number of the host
/// doubtful.
pub(crate) const CROWDED_NS: u64 = 300_000_000;

/// A thread that waits this long in a second for a core makes what it asks for take as long.
pub(super) const STARVED_NS: u64 = 400_000_000;

pub(crate) type Subject = (SuspectKind, String, String);

/// What was measured of one subject in one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) kind: SuspectKind,
    pub(crate) name: String,
    /// Only members of a group are compared with each other.
    pub(crate) group: String,
    /// Smaller is better: a time for something that all of the group do.
    pub(crate) value_ns: u64,
    /// What the time is, for people.
    pub(crate) what: &'static str,
    /// And where it goes, if it is too long.
    pub(crate) cause: SuspectCause,
    /// From now on it is measured over others than before, so what it was is no measure.
    pub(crate) starts_over: bool,
}

/// Values of one turn that a subject is held against.
pub(crate) struct PeerBaseline {
    pub(super) others_ns: Option<u64>,
    /// What the others take usually.
    pub(super) others_usual_ns: Option<u64>,
    /// How much slower than usual the others are, in tenths.
    pub(super) others_slowdown_tenths: u64,
    /// And by how much.
    pub(super) others_increase_ns: u64,
    pub(super) is_crowded: bool,
    /// What `perigee check` measured over the NIC.
    pub(super) checked_ns: Option<u64>,
}

pub(crate) fn is_crowded(typical: &BTreeMap<Subject, u64>) -> bool {
    let shards = typical.iter().filter(|(who, _)| who.0 == SuspectKind::Shard);
    median(shards.map(|(_, value)| *value).collect()).is_some_and(|wait| wait >= CROWDED_NS)
}

/// Whether a thread of this host gets so little of a core that its peers seem to stand still.
pub(super) fn is_starved(typical: &BTreeMap<Subject, u64>) -> bool {
    typical.iter().any(|(who, wait_ns)| who.0 == SuspectKind::Shard && *wait_ns >= STARVED_NS)
}
