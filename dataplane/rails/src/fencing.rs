//! Queue pairs that broke while writes were on their way: packets of theirs may still be in the
//! network.
//!
//! The bytes were sent again over another rail, but the request is not reported as done before the
//! peer has confirmed that its end of the broken queue pair is gone: only then can no late packet
//! overwrite what the caller puts there next.

use crate::descriptor::FencedPair;
use crate::limits::{EXCHANGE_DEADLINE, FENCE_PAUSE, PAIRS_PER_PEER_MAX};
use crate::slab::SlabKey;
use std::time::Duration;

/// One broken queue pair.
#[derive(Clone, Debug)]
struct Fence {
    pair: FencedPair,
    /// Requests that wait for it: all of them are alive, and count it.
    holds: Vec<SlabKey>,
    /// The question that it was part of.
    asked: Option<u64>,
}

/// Broken queue pairs to one peer that its end has not confirmed as gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    open: Vec<Fence>,
    /// The question on its way: its serial number, and when it is given up.
    asked: Option<(u64, Duration)>,
    next: Duration,
}

impl Fences {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// A queue pair broke with writes of these requests on their way. Each of them counts one fence
    /// more.
    pub(crate) fn open(&mut self, pair: FencedPair, holds: Vec<SlabKey>) {
        if !holds.is_empty() {
            self.open.push(Fence { pair, holds, asked: None });
        }
    }

    /// Whether the peer should be asked now.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        let answer_is_late = |(_, until): (u64, Duration)| now >= until;
        !self.open.is_empty() && self.asked.is_none_or(answer_is_late) && now >= self.next
    }

    /// What the peer is asked under this number: every queue pair that is open now, as many as one
    /// question holds.
    pub(crate) fn ask(&mut self, serial: u64, now: Duration) -> Vec<FencedPair> {
        self.asked = Some((serial, now + EXCHANGE_DEADLINE));
        let asked = self.open.iter_mut().take(PAIRS_PER_PEER_MAX);
        let pair = |fence: &mut Fence| {
            fence.asked = Some(serial);
            debug_assert!(!fence.holds.is_empty(), "a request waits for it");
            fence.pair
        };
        asked.map(pair).collect()
    }

    /// Whether this number is that of the question on its way.
    pub(crate) fn awaits(&self, serial: u64) -> bool {
        self.asked.is_some_and(|(asked, _)| asked == serial)
    }

    /// The peer has taken `gone` of what it was asked for down. If that is all of it, returns each
    /// request once for every fence that it waited for.
    pub(crate) fn confirmed(&mut self, serial: u64, gone: u32, now: Duration) -> Vec<SlabKey> {
        let asked = self.open.iter().filter(|fence| fence.asked == Some(serial));
        if (gone as usize) < asked.count() {
            self.unanswered(now);
            return Vec::new();
        }
        self.asked = None;
        let mut released = Vec::new();
        self.open.retain_mut(|fence| {
            let gone = fence.asked == Some(serial);
            if gone {
                released.append(&mut fence.holds);
            }
            !gone
        });
        released
    }

    /// There was no such answer: it is asked again after a pause.
    pub(crate) fn unanswered(&mut self, now: Duration) {
        self.asked = None;
        self.next = now + FENCE_PAUSE;
    }

    /// The peer is gone, and its queue pairs with it.
    pub(crate) fn all_gone(&mut self) -> Vec<SlabKey> {
        let open = std::mem::take(&mut self.open);
        open.into_iter().flat_map(|fence| fence.holds).collect()
    }

    /// How many fences a request waits for.
    #[cfg(test)]
    pub(crate) fn count_of(&self, request: SlabKey) -> usize {
        let held = self.open.iter().flat_map(|fence| &fence.holds);
        held.filter(|held| **held == request).count()
    }

    /// A request ends without waiting any longer.
    pub(crate) fn let_go(&mut self, request: SlabKey) {
        for fence in &mut self.open {
            fence.holds.retain(|held| *held != request);
        }
        self.open.retain(|fence| !fence.holds.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn pair(queue_pair: u32) -> FencedPair {
        FencedPair { lane: 0, queue_pair }
    }

    fn key(bits: u32) -> SlabKey {
        SlabKey::from_bits(bits)
    }

    #[test]
    fn a_queue_pair_that_broke_after_the_question_is_not_covered_by_its_answer() {
        let mut fences = Fences::default();
        fences.open(pair(1), vec![key(1)]);
        assert_eq!(fences.ask(7, Duration::ZERO), [pair(1)]);
        fences.open(pair(2), vec![key(1), key(2)]);
        assert!(!fences.is_due(Duration::ZERO));
        assert_eq!(fences.confirmed(7, 1, Duration::ZERO), [key(1)]);
        assert!(fences.is_due(Duration::ZERO) && !fences.awaits(7));
        assert_eq!(fences.ask(8, Duration::ZERO), [pair(2)]);
        assert_eq!(fences.confirmed(8, 1, Duration::ZERO), [key(1), key(2)]);
        assert!(fences.is_empty());
    }

    #[test]
    fn a_question_without_answer_is_asked_again() {
        let mut fences = Fences::default();
        fences.open(pair(1), vec![key(1)]);
        fences.ask(1, Duration::ZERO);
        fences.unanswered(Duration::ZERO);
        assert!(!fences.is_due(Duration::ZERO) && fences.is_due(FENCE_PAUSE));
        fences.ask(2, FENCE_PAUSE);
        assert!(fences.is_due(FENCE_PAUSE + EXCHANGE_DEADLINE));
        fences.ask(3, FENCE_PAUSE + EXCHANGE_DEADLINE);
        assert!(!fences.awaits(2));
        assert_eq!(fences.confirmed(3, 1, Duration::ZERO), [key(1)]);
    }

    #[test]
    fn a_peer_that_knows_nothing_of_fences_confirms_none() {
        let mut fences = Fences::default();
        fences.open(pair(1), vec![key(1)]);
        fences.ask(1, Duration::ZERO);
        assert_eq!(fences.confirmed(1, 0, Duration::ZERO), []);
        assert!(fences.is_due(FENCE_PAUSE));
    }

    #[test]
    fn fences_without_a_waiter_are_not_asked_for() {
        let mut fences = Fences::default();
        fences.open(pair(1), vec![]);
        fences.open(pair(2), vec![key(1)]);
        fences.let_go(key(1));
        assert!(fences.is_empty() && !fences.is_due(Duration::MAX));
    }

    proptest! {
        #[test]
        fn every_hold_is_released_once(
            steps in proptest::collection::vec((0u8..4, 0u32..6), 1..200),
        ) {
            let (mut fences, mut held) = (Fences::default(), HashMap::<u32, i64>::new());
            let (mut serial, mut now) = (0, Duration::ZERO);
            for (step, number) in steps {
                now += Duration::from_millis(40);
                match step {
                    0 => {
                        fences.open(pair(number), vec![key(number), key(number + 1)]);
                        *held.entry(number).or_default() += 1;
                        *held.entry(number + 1).or_default() += 1;
                    }
                    1 if fences.is_due(now) => {
                        serial += 1;
                        fences.ask(serial, now);
                    }
                    2 if fences.awaits(serial) => {
                        for key in fences.confirmed(serial, u32::MAX, now) {
                            *held.entry(key.bits()).or_default() -= 1;
                        }
                    }
                    3 => {
                        fences.let_go(key(number));
                        held.remove(&number);
                    }
                    _ => fences.unanswered(now),
                }
                prop_assert!(held.values().all(|count| *count >= 0));
            }
            for key in fences.all_gone() {
                *held.entry(key.bits()).or_default() -= 1;
            }
            prop_assert!(held.values().all(|count| *count == 0));
        }
    }
}
