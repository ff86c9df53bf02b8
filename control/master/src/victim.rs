//! A replica that may be evicted, and how badly its space is needed.
//! Invariant: of two victims the smaller one goes first.

use crate::departures::DepartureCause;
use crate::limits::COLD_AGE_FACTOR;
use crate::list_name::Class;
use crate::tenant::{SHARED, TenantNumber};

/// A replica that may be evicted. Smaller is evicted sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Victim {
    /// What evicting it breaks: 0 nothing, 1 a probe lease, 2 a soft pin, 3 both.
    pub(crate) rank: u8,
    /// What it is worth keeping.
    pub(crate) worth: u64,
    pub(crate) class: Class,
    pub(crate) replica: u32,
}

/// How badly space is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvictionReason {
    /// The watermark is exceeded: no lease is broken and nothing fresh goes.
    Watermark,
    /// A put of this tenant fails otherwise: probe leases may be broken.
    Put(TenantNumber),
    /// Nothing goes yet: what would go next is to have a copy on a disk by then.
    LookAhead,
}

impl Victim {
    /// Whether this one of the two goes, if nothing but its worth counts.
    pub(crate) fn goes_before(&self, other: &Self) -> bool {
        (self.worth, self.class, self.replica) < (other.worth, other.class, other.replica)
    }

    /// How many times as old it counts beside those of other shards.
    pub(crate) fn weight(&self) -> u64 {
        match self.class {
            Class::Plain(kind) if kind.reads() == 0 => COLD_AGE_FACTOR,
            Class::Plain(_) | Class::Pinned => 1,
        }
    }

    /// One that goes before all others.
    pub(crate) fn first(class: Class, replica: u32) -> Self {
        Self { rank: 0, worth: 0, class, replica }
    }
}

impl EvictionReason {
    /// Whether a put fails otherwise.
    pub(crate) fn is_put(self) -> bool {
        matches!(self, Self::Put(_))
    }

    /// The tenant whose own objects may go whatever is guaranteed to it.
    pub(crate) fn writer(self) -> TenantNumber {
        match self {
            Self::Put(writer) => writer,
            Self::Watermark | Self::LookAhead => SHARED,
        }
    }
}

impl From<EvictionReason> for DepartureCause {
    fn from(reason: EvictionReason) -> Self {
        match reason {
            EvictionReason::Put(_) => Self::PutNeededRoom,
            EvictionReason::Watermark | EvictionReason::LookAhead => Self::Watermark,
        }
    }
}
