//! The time of a shard, its calls, and touches of objects, counted, and when they happened,
//! coarsely, so that shards can compare how long their oldest objects have been idle.
//! Invariant: time never goes back. Each touch has a later stamp than the one before. Marks are in
//! order of both stamps and time, and no more than a fixed number of them.

use std::collections::VecDeque;

use crate::limits::{AGE_MARK_MS, AGE_MARKS_MAX, FRESH_MS};

#[derive(Debug, Default)]
pub(crate) struct TouchClock {
    now_ms: u64,
    /// Batch calls so far.
    calls: u64,
    touches: u64,
    /// Number of touches and the time, taken now and then.
    marks: VecDeque<(u64, u64)>,
}

impl TouchClock {
    /// Notes the time; one before an earlier call's counts as that call's.
    pub(crate) fn advance(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// A call begins.
    pub(crate) fn begin_call(&mut self, now_ms: u64) {
        self.advance(now_ms);
        self.calls += 1;
    }

    /// The time of the present call.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The number of the present call.
    pub(crate) fn call(&self) -> u64 {
        self.calls
    }

    /// The stamp of one more touch.
    pub(crate) fn touch(&mut self) -> u64 {
        self.touches += 1;
        self.touches
    }

    /// Touches so far, which is the stamp of the last one.
    pub(crate) fn last(&self) -> u64 {
        self.touches
    }

    /// Touches since the one with this stamp.
    pub(crate) fn since(&self, stamp: u64) -> u64 {
        debug_assert!(stamp <= self.touches, "no touch is to come");
        self.touches - stamp
    }

    /// Notes that the touches so far have happened by now.
    pub(crate) fn note(&mut self) {
        let now_ms = self.now_ms;
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
            self.marks.back().is_none_or(|last| *last <= (self.touches, now_ms)),
            "marks are in order"
        );
        self.marks.push_back((self.touches, now_ms));
    }

    /// Panics unless the marks are bounded and in order.
    pub(crate) fn check(&self) {
        assert!(self.marks.len() <= AGE_MARKS_MAX);
        assert!(self.marks.back().is_none_or(|(touches, _)| *touches <= self.touches));
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

    /// Stamp that everything has that was touched a moment ago, or a later one.
    pub(crate) fn settled(&self) -> u64 {
        self.stamp_before(self.now_ms.saturating_sub(FRESH_MS))
    }

    /// Milliseconds for which a touch is past at least.
    pub(crate) fn idle_ms(&self, stamp: u64) -> u64 {
        let after = self.marks.partition_point(|(clock, _)| *clock < stamp);
        let at_ms = self.marks.get(after).map_or(self.now_ms, |(_, at_ms)| *at_ms);
        self.now_ms.saturating_sub(at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Touches until there are so many, and notes the time.
    fn note(clock: &mut TouchClock, touches: u64, now_ms: u64) {
        while clock.last() < touches {
            clock.touch();
        }
        clock.advance(now_ms);
        clock.note();
    }

    #[test]
    fn a_touch_is_as_old_as_the_first_mark_after_it() {
        let mut clock = TouchClock::default();
        assert_eq!(clock.idle_ms(5), 0, "nothing is known yet");
        note(&mut clock, 10, 1_000);
        note(&mut clock, 20, 1_001);
        note(&mut clock, 30, 1_000 + AGE_MARK_MS);
        clock.advance(5_000);
        assert_eq!(clock.idle_ms(10), 4_000);
        assert_eq!(clock.idle_ms(11), 4_000 - AGE_MARK_MS);
        assert_eq!(clock.idle_ms(31), 0);
        let stamps = [999, 1_000, 1_000 + AGE_MARK_MS].map(|at_ms| clock.stamp_before(at_ms));
        assert_eq!(stamps, [0, 11, 31]);
    }

    #[test]
    fn marks_are_bounded_and_stay_in_order() {
        let mut clock = TouchClock::default();
        let marks = 10 * AGE_MARKS_MAX as u64;
        for mark in 0..marks {
            note(&mut clock, mark, mark * AGE_MARK_MS);
        }
        assert!(clock.marks.len() <= AGE_MARKS_MAX);
        let end_ms = marks * AGE_MARK_MS;
        clock.advance(end_ms);
        let idle = |stamp| clock.idle_ms(stamp);
        assert!((1..marks).all(|stamp| idle(stamp) <= idle(stamp - 1)));
        // Half of the marks are twice as coarse as the newer half, and so on.
        assert!(idle(1) > end_ms / 4);
    }
}
