//! One slice: a part of a request on its way over one rail at a time.
//!
//! Each post gets a ticket of its own, and only an event with the present ticket counts: a
//! completion that comes twice, or after the slice was given to another rail, changes nothing.

use crate::retry::{RetryDecision, Tries, WorkFault};
use crate::slab::SlabKey;
use std::time::Duration;

/// Where a slice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SliceState {
    Waiting,
    Posted { ticket: u64 },
    Ended,
}

/// A contiguous part of a request.
#[derive(Clone, Debug)]
pub(crate) struct RailSlice {
    /// Request it belongs to, as the slot of its shard.
    pub(crate) request: SlabKey,
    /// First byte within the request.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) bytes: u64,
    state: SliceState,
    tries: Tries,
    avoid: Option<LanePath>,
}

/// The way a slice went: what is known of the lane then, whatever becomes of it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LanePath {
    /// Lane of the peer.
    pub(crate) lane: usize,
    /// Local and remote rail.
    pub(crate) rails: (usize, usize),
}

impl LanePath {
    /// Leaves out of `all` what the slice that failed this way should not take again: every lane
    /// over the same rails if there are others, else at least the lane itself. At least one is
    /// left.
    pub(crate) fn leave(self, all: &mut Vec<LanePath>) {
        let before = all.len();
        if all.iter().any(|way| way.rails != self.rails) {
            all.retain(|way| way.rails != self.rails);
        } else if all.len() > 1 {
            all.retain(|way| way.lane != self.lane);
        }
        debug_assert!(!all.is_empty() || before == 0, "at least one is left");
    }
}

impl RailSlice {
    /// A slice that waits for a rail.
    pub(crate) fn new(request: SlabKey, offset: u64, bytes: u64) -> Self {
        Self {
            request,
            offset,
            bytes,
            state: SliceState::Waiting,
            tries: Tries::default(),
            avoid: None,
        }
    }

    /// The way it failed last: another one is better if there is one.
    pub(crate) fn avoids(&self) -> Option<LanePath> {
        self.avoid
    }

    /// It is posted under a ticket that no other post has; false if it is not waiting.
    pub(crate) fn posted(&mut self, ticket: u64) -> bool {
        let waiting = self.state == SliceState::Waiting;
        if waiting {
            self.state = SliceState::Posted { ticket };
        }
        waiting
    }

    /// Its bytes have arrived; false if the ticket is not the present one.
    pub(crate) fn completed(&mut self, ticket: u64) -> bool {
        let current = self.state == SliceState::Posted { ticket };
        if current {
            self.state = SliceState::Ended;
        }
        current
    }

    /// Its post failed on this way; `limit` is how often that may be, and until when. `None` if the
    /// ticket is not the present one.
    pub(crate) fn failed(
        &mut self,
        ticket: u64,
        way: LanePath,
        fault: WorkFault,
        now: Duration,
        limit: (u16, Duration),
    ) -> Option<RetryDecision> {
        if self.state != (SliceState::Posted { ticket }) {
            return None;
        }
        let verdict = self.tries.judge(fault, now, limit);
        self.avoid = Some(way);
        self.state = match verdict {
            RetryDecision::Again => SliceState::Waiting,
            RetryDecision::GiveUp | RetryDecision::Late => SliceState::Ended,
        };
        Some(verdict)
    }

    /// Whether it waits for a rail.
    #[cfg(test)]
    pub(crate) fn is_waiting(&self) -> bool {
        self.state == SliceState::Waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ATTEMPTS_MAX;
    use proptest::prelude::*;

    const LIMIT: (u16, Duration) = (ATTEMPTS_MAX, Duration::from_secs(60));

    fn way(lane: usize, local: usize, remote: usize) -> LanePath {
        LanePath { lane, rails: (local, remote) }
    }

    #[test]
    fn a_slice_that_failed_leaves_every_lane_over_its_rails_if_there_are_others() {
        let all = [way(0, 0, 0), way(1, 1, 1), way(2, 0, 0), way(3, 1, 1)];
        let mut left = all.to_vec();
        way(2, 0, 0).leave(&mut left);
        assert_eq!(left, [all[1], all[3]]);
        // If the lane has moved to another pair of rails since, that is another path.
        let mut left = vec![way(0, 0, 1), way(1, 0, 0)];
        way(0, 0, 0).leave(&mut left);
        assert_eq!(left, [way(0, 0, 1)]);
    }

    #[test]
    fn a_slice_leaves_its_lane_only_if_there_is_another() {
        let mut left = vec![way(0, 0, 0), way(1, 0, 0)];
        way(1, 0, 0).leave(&mut left);
        assert_eq!(left, [way(0, 0, 0)]);
        way(0, 0, 0).leave(&mut left);
        assert_eq!(left, [way(0, 0, 0)]);
    }

    #[test]
    fn a_second_completion_changes_nothing() {
        let mut slice = RailSlice::new(SlabKey::from_bits(0), 0, 10);
        assert!(slice.posted(1));
        assert!(slice.completed(1));
        assert!(!slice.completed(1));
        assert_eq!(slice.failed(1, way(0, 0, 0), WorkFault::Rail, Duration::ZERO, LIMIT), None);
        assert!(!slice.posted(2));
    }

    #[test]
    fn a_late_completion_of_an_earlier_post_does_not_end_the_present_one() {
        let mut slice = RailSlice::new(SlabKey::from_bits(0), 0, 10);
        slice.posted(1);
        let verdict = slice.failed(1, way(3, 0, 1), WorkFault::Unanswered, Duration::ZERO, LIMIT);
        assert_eq!(verdict, Some(RetryDecision::Again));
        assert_eq!(slice.avoids(), Some(way(3, 0, 1)));
        slice.posted(2);
        assert!(!slice.completed(1));
        assert!(slice.completed(2));
    }

    proptest! {
        #[test]
        fn a_slice_ends_exactly_once_whatever_events_come(
            events in proptest::collection::vec((0u8..3, 0u64..6), 1..200),
        ) {
            let mut slice = RailSlice::new(SlabKey::from_bits(0), 0, 1);
            let (mut ends, mut ticket) = (0, 0);
            for (event, old) in events {
                match event {
                    0 => {
                        let waited = slice.is_waiting();
                        ticket += 1;
                        prop_assert_eq!(slice.posted(ticket), waited);
                    }
                    1 => ends += u32::from(slice.completed(ticket.saturating_sub(old))),
                    _ => {
                        let seen = ticket.saturating_sub(old);
                        let way = way(0, 0, 0);
                        match slice.failed(seen, way, WorkFault::Flushed, Duration::ZERO, LIMIT) {
                            Some(RetryDecision::GiveUp | RetryDecision::Late) => ends += 1,
                            Some(RetryDecision::Again) => prop_assert!(slice.is_waiting()),
                            None => {}
                        }
                    }
                }
            }
            prop_assert!(ends <= 1);
            prop_assert_eq!(ends == 1, slice.state == SliceState::Ended);
        }
    }
}
