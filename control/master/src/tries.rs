//! Tries of one copy, and when the next one may be made.
//! Invariant: what was given up is never tried again, and keeps its first reason.

use perigee_schemas::Status;

use crate::limits::RETRY_PAUSE_MS;

/// How patient the owner of a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetryRule {
    /// Tries after the first one.
    pub(crate) retries_max: u32,
    /// Each pause is twice as long as the one before.
    pub(crate) pauses_grow: bool,
    /// For how long missing room is not a failure; `None` if it is one.
    pub(crate) no_room_patience_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tries {
    failed: u32,
    next_ms: u64,
    /// When it found no room for the first time since it last found some.
    without_room_since_ms: Option<u64>,
    given_up: Option<Status>,
}

impl Tries {
    /// Whether the next try may be made.
    pub(crate) fn may_try(&self, now_ms: u64) -> bool {
        self.given_up.is_none() && self.next_ms <= now_ms
    }

    /// Tries that failed since the last good one.
    pub(crate) fn failed(&self) -> u32 {
        self.failed
    }

    /// When the next try may be made, if there is one.
    pub(crate) fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// Why it is not tried any more.
    pub(crate) fn given_up(&self) -> Option<Status> {
        self.given_up
    }

    /// Whether it waits for room.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.given_up.is_none() && self.without_room_since_ms.is_some()
    }

    /// A copy is good; the next one starts afresh.
    pub(crate) fn note_done(&mut self) {
        (self.failed, self.without_room_since_ms) = (0, None);
    }

    /// A try failed for a reason that may pass.
    pub(crate) fn note_failure(&mut self, now_ms: u64, status: Status, rule: &RetryRule) {
        debug_assert!(self.given_up.is_none(), "nothing is tried after the end");
        let doublings = if rule.pauses_grow { self.failed } else { 0 };
        self.failed += 1;
        self.without_room_since_ms = None;
        if self.failed > rule.retries_max {
            self.give_up(status);
        } else {
            self.next_ms = now_ms.saturating_add(RETRY_PAUSE_MS << doublings);
        }
    }

    /// There was no room. With patience that is no failure: eviction, other shards or new segments
    /// may bring some, but it is not waited for forever.
    pub(crate) fn note_no_room(&mut self, now_ms: u64, rule: &RetryRule) {
        let Some(patience_ms) = rule.no_room_patience_ms else {
            return self.note_failure(now_ms, Status::NoAvailableHandle, rule);
        };
        let since_ms = *self.without_room_since_ms.get_or_insert(now_ms);
        self.next_ms = now_ms.saturating_add(RETRY_PAUSE_MS);
        if now_ms.saturating_sub(since_ms) > patience_ms {
            self.give_up(Status::NoAvailableHandle);
        }
    }

    /// It cannot be done.
    pub(crate) fn give_up(&mut self, status: Status) {
        self.given_up.get_or_insert(status);
    }

    /// Panics if it goes on after its last try.
    pub(crate) fn check(&self, rule: &RetryRule) {
        assert!(self.failed <= rule.retries_max || self.given_up.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: RetryRule =
        RetryRule { retries_max: 3, pauses_grow: false, no_room_patience_ms: None };

    #[test]
    fn it_is_tried_once_and_as_often_again_as_the_rule_says() {
        for pauses_grow in [false, true] {
            let rule = RetryRule { pauses_grow, ..RULE };
            let (mut tries, mut now_ms) = (Tries::default(), 0);
            for doublings in 0..3 {
                assert!(tries.may_try(now_ms));
                tries.note_failure(now_ms, Status::TransferFail, &rule);
                tries.check(&rule);
                let pause_ms = RETRY_PAUSE_MS << if pauses_grow { doublings } else { 0 };
                assert!(!tries.may_try(now_ms + pause_ms - 1));
                now_ms += pause_ms;
            }
            assert!(tries.may_try(now_ms));
            tries.note_failure(now_ms, Status::TransferFail, &rule);
            assert_eq!(tries.given_up(), Some(Status::TransferFail));
            assert!(!tries.may_try(u64::MAX));
        }
    }

    #[test]
    fn without_room_it_waits_as_long_as_patience_lasts() {
        let rule = RetryRule { no_room_patience_ms: Some(1_000), ..RULE };
        let mut tries = Tries::default();
        tries.note_no_room(100, &rule);
        tries.note_no_room(1_100, &rule);
        assert_eq!((tries.given_up(), tries.failed()), (None, 0));
        tries.note_no_room(1_101, &rule);
        assert_eq!(tries.given_up(), Some(Status::NoAvailableHandle));
    }

    #[test]
    fn without_patience_missing_room_is_a_failure() {
        let mut tries = Tries::default();
        tries.note_no_room(0, &RULE);
        assert_eq!((tries.failed(), tries.may_try(RETRY_PAUSE_MS)), (1, true));
    }

    #[test]
    fn the_first_reason_stays() {
        let mut tries = Tries::default();
        tries.give_up(Status::SegmentNotFound);
        tries.give_up(Status::ObjectNotFound);
        assert_eq!(tries.given_up(), Some(Status::SegmentNotFound));
    }
}
