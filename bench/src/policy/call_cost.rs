//! CPU time that a shard takes for the calls of a trace.
//! Invariant: it is the time of the playing thread alone, so other programs do not change it.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::error::BenchError;
use crate::report::{Figure, FigureUnit, Goal};

/// What a policy may add to the time of `put_start` that LRU takes.
const PUT_START_RATIO_MAX: f64 = 1.1;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallCost {
    pub(super) put_start: Duration,
    /// Keys of all `put_start` calls.
    pub(super) put_keys: u64,
    /// Of whole requests: every call, what is learned from it and what runs in ticks.
    pub(super) requests: Duration,
}

impl CallCost {
    /// Figures of one policy and pool.
    pub(super) fn figures(&self, name: &str, requests: usize) -> [Figure; 2] {
        let figure = |what, ns| {
            let name = format!("{name}: CPU time {what}");
            Figure { name, value: ns, unit: FigureUnit::Nanoseconds, goal: None }
        };
        [
            figure("of put_start per key", self.put_start_ns()),
            figure("per request", self.requests.as_nanos() as f64 / requests.max(1) as f64),
        ]
    }

    fn put_start_ns(&self) -> f64 {
        self.put_start.as_nanos() as f64 / self.put_keys.max(1) as f64
    }

    /// Time of `put_start` against that of another policy with the same pool.
    pub(super) fn against(&self, other: &Self, name: &str) -> Figure {
        let ratio = self.put_start_ns() / other.put_start_ns().max(f64::MIN_POSITIVE);
        Figure::ratio(name, ratio).with_goal(Goal::AtMost(PUT_START_RATIO_MAX))
    }
}

/// CPU time that the calling thread has taken so far.
pub(super) fn thread_time() -> Result<Duration, BenchError> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    Ok(time.map(Duration::from).map_err(std::io::Error::from)?)
}
