//! Which requests are kept: those whose program wants to see them, and of all others the slow ones
//! and the slowest of each second.
//! Invariant: without an agent nothing is kept, and of what no program asked for so much a second
//! at most.

use crate::limits::{SLOW_KEPT_PER_SECOND, SLOW_TIMES};
use crate::operation::{OPERATIONS, Operation};
use crate::page::page;
use crate::span::SpanKind;
use perigee_schemas::frame::MessageKind;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Kinds of subjects: calls, then what nodes and masters answer.
const KINDS: usize = OPERATIONS + 8;
/// Sizes of a kind, by powers of four.
const SIZES: usize = 16;

/// Class of calls whose durations are compared: operation and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacedKind {
    kind: usize,
    size: usize,
}

impl PacedKind {
    pub(crate) fn call(operation: Operation, bytes: u64) -> Self {
        Self { kind: operation as usize, size: size(bytes) }
    }

    pub(crate) fn served(kind: SpanKind, detail: u16, bytes: u64) -> Self {
        let place = match MessageKind::from_wire(detail) {
            _ if kind != SpanKind::Answered => 0,
            Some(MessageKind::Exist) => 1,
            Some(MessageKind::GetReplicas) => 2,
            Some(MessageKind::PutStart) => 3,
            Some(MessageKind::PutEnd) => 4,
            Some(MessageKind::PutRevoke) => 5,
            Some(MessageKind::Remove) => 6,
            _ => 7,
        };
        Self { kind: OPERATIONS + place, size: size(bytes) }
    }
}

fn size(bytes: u64) -> usize {
    let log4 = (u64::BITS - bytes.leading_zeros()).div_ceil(2) as usize;
    log4.saturating_sub(4).min(SIZES - 1)
}

/// Running medians of a thread's calls, by operation and size.
#[derive(Debug)]
pub(super) struct UsualPace {
    /// Running medians in nanoseconds; 0 for what was never done.
    usual_ns: Box<[[u64; SIZES]; KINDS]>,
}

impl Default for UsualPace {
    fn default() -> Self {
        Self { usual_ns: Box::new([[0; SIZES]; KINDS]) }
    }
}

impl UsualPace {
    /// Whether something that took so long is kept. It counts among its kind either way.
    pub(super) fn is_kept(
        &mut self,
        subject: PacedKind,
        took_ns: u64,
        now: Duration,
        is_wanted: bool,
    ) -> bool {
        let is_slow = self.is_slow(subject, took_ns);
        let second = &SECONDS[subject.kind];
        let is_noted = is_wanted | second.note(now.as_secs(), took_ns, is_slow);
        is_noted && is_watched(now)
    }

    fn is_slow(&mut self, subject: PacedKind, took_ns: u64) -> bool {
        let usual = &mut self.usual_ns[subject.kind][subject.size];
        let is_slow = *usual > 0 && took_ns > usual.saturating_mul(SLOW_TIMES);
        // Half of all are above, so steps of the same size in both directions end at the median.
        let step = (*usual >> 5).max(1);
        *usual = match *usual {
            0 => took_ns.max(1),
            usual if took_ns > usual => usual.saturating_add(step),
            usual => (usual - step).max(1),
        };
        is_slow
    }
}

/// What was kept of a kind in the present second. Threads may overtake each other here, and keep
/// one more or less.
struct Second {
    number: AtomicU64,
    slowest_ns: AtomicU64,
    kept: AtomicU32,
}

static SECONDS: [Second; KINDS] = [const { Second::new() }; KINDS];

impl Second {
    const fn new() -> Self {
        Self { number: AtomicU64::new(0), slowest_ns: AtomicU64::new(0), kept: AtomicU32::new(0) }
    }

    /// Whether it is slower than all before it in this second, or slow and there is room.
    fn note(&self, second: u64, took_ns: u64, is_slow: bool) -> bool {
        if self.number.load(Ordering::Relaxed) != second {
            self.number.store(second, Ordering::Relaxed);
            self.slowest_ns.store(0, Ordering::Relaxed);
            self.kept.store(0, Ordering::Relaxed);
        }
        if took_ns > self.slowest_ns.load(Ordering::Relaxed) {
            self.slowest_ns.store(took_ns, Ordering::Relaxed);
            return true;
        }
        is_slow && self.kept.fetch_add(1, Ordering::Relaxed) < SLOW_KEPT_PER_SECOND
    }
}

/// Whether an agent reads the page of this process; looked up once a second.
pub(super) fn is_watched(now: Duration) -> bool {
    static KNOWN: AtomicU64 = AtomicU64::new(u64::MAX);
    let known = KNOWN.load(Ordering::Relaxed);
    if known >> 1 == now.as_secs() {
        return known & 1 == 1;
    }
    let is_watched = page().is_some_and(|page| page.has_reader());
    KNOWN.store(now.as_secs() << 1 | u64::from(is_watched), Ordering::Relaxed);
    is_watched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_four_times_the_median_is_slow_whatever_the_size_of_others() {
        let mut pace = UsualPace::default();
        let (small, large) =
            (PacedKind::call(Operation::Get, 4096), PacedKind::call(Operation::Get, 64 << 20));
        assert_ne!(small, large);
        for turn in 0..2000 {
            pace.is_slow(small, 9_000 + turn % 2000);
            pace.is_slow(large, 20_000_000);
        }
        assert!(!pace.is_slow(small, 30_000));
        assert!(pace.is_slow(small, 60_000));
        assert!(!pace.is_slow(large, 60_000_000));
    }

    #[test]
    fn the_usual_follows_the_median_and_not_a_few_that_are_slow() {
        let mut pace = UsualPace::default();
        let subject = PacedKind::call(Operation::Put, 0);
        for turn in 0..5000 {
            pace.is_slow(subject, if turn % 10 == 0 { 50_000_000 } else { 10_000 });
        }
        let usual = pace.usual_ns[subject.kind][subject.size];
        assert!((9_000..12_000).contains(&usual), "{usual}");
    }

    #[test]
    fn of_a_second_the_slowest_are_kept_and_a_bounded_number_of_slow_ones() {
        let second = Second::new();
        let kept = [5, 3, 9, 9, 8].map(|took| second.note(7, took, false));
        assert_eq!(kept, [true, false, true, false, false]);
        let slow = (0..3 * SLOW_KEPT_PER_SECOND).filter(|_| second.note(7, 4, true)).count();
        assert_eq!(slow, SLOW_KEPT_PER_SECOND as usize);
        assert!(second.note(8, 1, false), "the next second has its own");
    }
}
