//! How long a thread watches for an answer before it sleeps.
//!
//! Watching saves a sleep and a wake-up when the other side answers at once on another core. When cores are short it
//! only keeps the other side from running, so the watch ends as soon as another thread was given the core.

use std::time::{Duration, Instant};

/// A yield that takes longer than this has let another thread run.
const YIELD_COST: Duration = Duration::from_micros(4);

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
    before.elapsed() > YIELD_COST
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
