//! When touches happened, coarsely, so that shards can compare how long their oldest objects have
//! been idle.
//! Invariant: marks are in order of both touches and time, and no more than a fixed number of them.

use std::collections::VecDeque;

use crate::limits::{AGE_MARK_MS, AGE_MARKS_MAX};

/// Number of touches so far and the time, taken now and then.
#[derive(Debug, Default)]
pub(crate) struct IdleAges {
    marks: VecDeque<(u64, u64)>,
}

impl IdleAges {
    /// Notes that there have been `clock` touches by `now_ms`.
    pub(crate) fn note(&mut self, clock: u64, now_ms: u64) {
        let last_ms = self.marks.back().map_or(0, |(_, at_ms)| *at_ms);
        if !self.marks.is_empty() && now_ms < last_ms.saturating_add(AGE_MARK_MS) {
            return;
        }
        if self.marks.len() >= AGE_MARKS_MAX {
            // Old times become coarser; they need no more.
            let mut odd = false;
            self.marks.retain(|_| {
                odd = !odd;
                odd
            });
        }
        debug_assert!(
            self.marks.back().is_none_or(|last| *last <= (clock, now_ms)),
            "marks are in order"
        );
        self.marks.push_back((clock, now_ms));
    }

    /// Panics unless the marks are bounded and in order.
    pub(crate) fn check(&self) {
        assert!(self.marks.len() <= AGE_MARKS_MAX);
        let in_order =
            |(before, after): (&(u64, u64), &(u64, u64))| before.0 <= after.0 && before.1 < after.1;
        assert!(self.marks.iter().zip(self.marks.iter().skip(1)).all(in_order));
    }

    /// A stamp below which all touches were past at a time.
    pub(crate) fn stamp_before(&self, at_ms: u64) -> u64 {
        let after = self.marks.partition_point(|(_, mark_ms)| *mark_ms <= at_ms);
        let last = after.checked_sub(1).and_then(|before| self.marks.get(before));
        last.map_or(0, |(clock, _)| clock.saturating_add(1))
    }

    /// Milliseconds for which a touch is past at least.
    pub(crate) fn idle_ms(&self, stamp: u64, now_ms: u64) -> u64 {
        let after = self.marks.partition_point(|(clock, _)| *clock < stamp);
        let at_ms = self.marks.get(after).map_or(now_ms, |(_, at_ms)| *at_ms);
        now_ms.saturating_sub(at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touch_is_as_old_as_the_first_mark_after_it() {
        let mut ages = IdleAges::default();
        assert_eq!(ages.idle_ms(5, 1_000), 0, "nothing is known yet");
        ages.note(10, 1_000);
        ages.note(20, 1_001);
        ages.note(30, 1_000 + AGE_MARK_MS);
        assert_eq!(ages.idle_ms(10, 5_000), 4_000);
        assert_eq!(ages.idle_ms(11, 5_000), 4_000 - AGE_MARK_MS);
        assert_eq!(ages.idle_ms(31, 5_000), 0);
        let stamps = [999, 1_000, 1_000 + AGE_MARK_MS].map(|at_ms| ages.stamp_before(at_ms));
        assert_eq!(stamps, [0, 11, 31]);
    }

    #[test]
    fn marks_are_bounded_and_stay_in_order() {
        let mut ages = IdleAges::default();
        let marks = 10 * AGE_MARKS_MAX as u64;
        for mark in 0..marks {
            ages.note(mark, mark * AGE_MARK_MS);
        }
        assert!(ages.marks.len() <= AGE_MARKS_MAX);
        let end_ms = marks * AGE_MARK_MS;
        let idle = |stamp| ages.idle_ms(stamp, end_ms);
        assert!((1..marks).all(|stamp| idle(stamp) <= idle(stamp - 1)));
        // Half of the marks are twice as coarse as the newer half, and so on.
        assert!(idle(1) > end_ms / 4);
    }
}
