//! How long a thread watches for an answer before it sleeps.
//!
//! Watching saves a sleep and a wake-up when the other side answers at once on another core. When cores are short it
//! only keeps the other side from running, so the watch ends as soon as another thread was given the core.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A yield that takes longer than this has let another thread run, on hardware.
const YIELD_COST: Duration = Duration::from_micros(4);
/// A yield that takes so many times longer than the shortest one seen has let another thread run: an emulated processor
/// needs more than [`YIELD_COST`] for nothing.
const YIELD_FACTOR: u64 = 2;
/// The shortest yield seen in this process, in nanoseconds.
static SHORTEST_NS: AtomicU64 = AtomicU64::new(u64::MAX);

/// A bounded watch.
#[derive(Debug)]
pub struct Patience {
    end: Instant,
    shared_core: bool,
}

impl Patience {
    /// A watch of at most `length`.
    pub fn new(length: Duration) -> Self {
        Self {
            end: Instant::now() + length,
            shared_core: false,
        }
    }

    /// Gives the core away once; false when the caller should sleep instead.
    pub fn watch_on(&mut self) -> bool {
        let before = Instant::now();
        if self.shared_core || before >= self.end {
            return false;
        }
        self.shared_core = yield_core(before);
        true
    }
}

/// Gives the core away; true if another thread ran meanwhile.
pub(crate) fn yield_core(before: Instant) -> bool {
    std::thread::yield_now();
    let took_ns = before.elapsed().as_nanos() as u64;
    let shortest_ns = SHORTEST_NS.fetch_min(took_ns, Ordering::Relaxed);
    took_ns > (YIELD_COST.as_nanos() as u64).max(shortest_ns.saturating_mul(YIELD_FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends() {
        let mut patience = Patience::new(Duration::from_micros(50));
        let mut turns = 0u64;
        while patience.watch_on() {
            turns += 1;
        }
        assert!(!patience.watch_on());
        assert!(turns < 1_000_000);
        assert!(!Patience::new(Duration::ZERO).watch_on());
    }
}
