//! How long a thread watches for an answer before it sleeps.
//!
//! Watching saves a sleep and a wake-up when the other side answers at once on another core. When
//! cores are short it only keeps the other side from running, so the watch ends as soon as another
//! thread was given the core. A thread that yields to a busy one is moreover out of the core for a
//! whole slice of the scheduler's, while one that sleeps is back as soon as it is woken: after such
//! a yield a thread does not watch at all for a while. Where a device is waited for, only that
//! counts: a core that was given away for less may have gone to the very worker that drives the
//! device.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A yield that takes longer than this has let another thread run, on hardware.
const YIELD_COST: Duration = Duration::from_micros(4);
/// A yield that takes so many times longer than the shortest one seen has let another thread run:
/// an emulated processor needs more than [`YIELD_COST`] for nothing.
const YIELD_FACTOR: u64 = 2;
/// A yield that takes longer than this met a thread that computes, not one that answers and sleeps
/// again.
const YIELD_HARM: Duration = Duration::from_micros(500);
/// For how long a thread sleeps at once after its first harmful yield, and after many in a row.
const CROWDED_MIN: Duration = Duration::from_millis(4);
const CROWDED_MAX: Duration = Duration::from_millis(64);
/// Longest watch for a device: what a slice of 1 MiB takes a port of 10 Gb/s, or Soft-RoCE a small
/// one.
pub(crate) const DEVICE_WATCH: Duration = Duration::from_millis(1);
/// The shortest yield seen in this process, in nanoseconds.
static SHORTEST_NS: AtomicU64 = AtomicU64::new(u64::MAX);

thread_local! {
    static CROWD: Cell<CoreContention> = const {
        Cell::new(CoreContention { until: None, length: Duration::ZERO })
    };
}

/// What a thread knows about others that want its core.
#[derive(Clone, Copy, Debug)]
struct CoreContention {
    until: Option<Instant>,
    length: Duration,
}

impl CoreContention {
    /// What is known after a yield that took `took` and ended at `now`.
    fn after(self, took: Duration, now: Instant) -> Self {
        if took <= YIELD_HARM {
            // One good yield proves little: the next harmful one costs half as long as the last.
            let length = self.length / 2;
            return Self { until: None, length };
        }
        let length = (self.length * 2).clamp(CROWDED_MIN, CROWDED_MAX);
        Self { until: Some(now + length), length }
    }

    fn is_here(self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// A bounded watch.
#[derive(Debug)]
pub struct SpinWait {
    end: Instant,
    is_over: bool,
    for_device: bool,
}

impl SpinWait {
    /// A watch of at most `length`; none at all while the thread's core is wanted by others.
    pub fn new(length: Duration) -> Self {
        Self::watching(length, false)
    }

    /// A watch for a device of at most [`DEVICE_WATCH`] and `limit`, through yields that let others
    /// run.
    pub fn for_device(limit: Duration) -> Self {
        Self::watching(DEVICE_WATCH.min(limit), true)
    }

    fn watching(length: Duration, for_device: bool) -> Self {
        let now = Instant::now();
        Self { end: now + length, is_over: is_crowded(now), for_device }
    }

    /// Gives the core away once; false when the caller should sleep instead.
    pub fn watch_on(&mut self) -> bool {
        let before = Instant::now();
        if self.is_over || before >= self.end {
            return false;
        }
        self.is_over = match yield_core(before) {
            Yield::Alone => false,
            Yield::Shared => !self.for_device,
            Yield::Crowded => true,
        };
        true
    }
}

/// Whether this thread should sleep at once when it has nothing to do.
pub(crate) fn is_crowded(now: Instant) -> bool {
    CROWD.get().is_here(now)
}

/// What a yield met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yield {
    /// No other thread wanted the core.
    Alone,
    /// Another thread ran in between.
    Shared,
    /// Another thread ran and computed.
    Crowded,
}

/// Gives the core away.
pub(crate) fn yield_core(before: Instant) -> Yield {
    std::thread::yield_now();
    let now = Instant::now();
    let took = now - before;
    CROWD.set(CROWD.get().after(took, now));
    let took_ns = took.as_nanos() as u64;
    let shortest_ns = SHORTEST_NS.fetch_min(took_ns, Ordering::Relaxed);
    let alone_ns = (YIELD_COST.as_nanos() as u64).max(shortest_ns.saturating_mul(YIELD_FACTOR));
    match took_ns {
        _ if took > YIELD_HARM => Yield::Crowded,
        _ if took_ns > alone_ns => Yield::Shared,
        _ => Yield::Alone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends() {
        let mut patience = SpinWait::new(Duration::from_micros(50));
        let mut turns = 0u64;
        while patience.watch_on() {
            turns += 1;
        }
        assert!(!patience.watch_on());
        assert!(turns < 1_000_000);
        assert!(!SpinWait::new(Duration::ZERO).watch_on());
        assert!(!SpinWait::for_device(Duration::ZERO).watch_on());
    }

    #[test]
    fn harmful_yields_in_a_row_keep_a_thread_from_watching_ever_longer() {
        let now = Instant::now();
        let mut crowd = CROWD.get();
        assert!(!crowd.is_here(now));
        crowd = crowd.after(YIELD_COST, now);
        assert!(!crowd.is_here(now), "a quick yield is no crowd");
        let mut last = Duration::ZERO;
        for _ in 0..10 {
            crowd = crowd.after(YIELD_HARM * 2, now);
            assert!(crowd.length >= last && crowd.is_here(now));
            assert!(!crowd.is_here(now + crowd.length));
            last = crowd.length;
        }
        assert_eq!(last, CROWDED_MAX);
        assert!(!crowd.after(YIELD_COST, now).is_here(now), "it is over");
    }
}
