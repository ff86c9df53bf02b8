//! How a disk behaves at present. Invariant: a fresh disk is fast, large and without faults.

use crate::random::Random;
use std::time::Duration;

/// How a disk behaves.
#[derive(Clone, Copy, Debug)]
pub struct DiskMood {
    /// Shortest and longest time of an operation.
    pub latency: (Duration, Duration),
    /// One operation in so many fails; 0 for none.
    pub error_odds: u64,
    /// One operation in so many takes as long as [`DiskMood::stall`]; 0 for none.
    pub stall_odds: u64,
    /// How long an operation that is stuck takes.
    pub stall: Duration,
    /// Bytes that its files have room for.
    pub capacity_bytes: u64,
}

impl Default for DiskMood {
    fn default() -> Self {
        Self {
            latency: (Duration::from_micros(30), Duration::from_millis(2)),
            error_odds: 0,
            stall_odds: 0,
            stall: Duration::from_secs(20),
            capacity_bytes: 1 << 40,
        }
    }
}

impl DiskMood {
    pub(super) fn latency(&self, random: &Random) -> Duration {
        if self.stall_odds > 0 && random.one_in(self.stall_odds) {
            return self.stall;
        }
        random.length(self.latency.0, self.latency.1)
    }
}
