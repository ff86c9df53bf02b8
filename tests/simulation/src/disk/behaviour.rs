//! How a disk behaves at present. Invariant: a fresh disk is fast, large and without faults.

use crate::random::Random;
use std::time::Duration;

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    Fails,
    /// A write is said to be done, and is not there.
    Lies,
}

/// How a disk behaves.
#[derive(Clone, Copy, Debug)]
pub struct DiskBehaviour {
    /// Shortest and longest time of an operation.
    pub latency: (Duration, Duration),
    /// One operation in so many fails; 0 for none.
    pub error_odds: u64,
    /// One write in so many is said to be done and is lost, or lands elsewhere in its file; 0 for
    /// none.
    pub lie_odds: u64,
    /// One operation in so many takes as long as [`DiskBehaviour::stall`]; 0 for none.
    pub stall_odds: u64,
    /// How long an operation that is stuck takes.
    pub stall: Duration,
    /// Bytes that its files have room for.
    pub capacity_bytes: u64,
}

impl Default for DiskBehaviour {
    fn default() -> Self {
        Self {
            latency: (Duration::from_micros(30), Duration::from_millis(2)),
            error_odds: 0,
            lie_odds: 0,
            stall_odds: 0,
            stall: Duration::from_secs(20),
            capacity_bytes: 1 << 40,
        }
    }
}

impl DiskBehaviour {
    /// What becomes of the next operation.
    pub(super) fn fate(&self, random: &Random) -> Fate {
        if self.error_odds > 0 && random.one_in(self.error_odds) {
            Fate::Fails
        } else if self.lie_odds > 0 && random.one_in(self.lie_odds) {
            Fate::Lies
        } else {
            Fate::Done
        }
    }

    pub(super) fn latency(&self, random: &Random) -> Duration {
        if self.stall_odds > 0 && random.one_in(self.stall_odds) {
            return self.stall;
        }
        random.length(self.latency.0, self.latency.1)
    }
}
