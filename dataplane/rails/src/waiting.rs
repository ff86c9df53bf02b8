//! The work of a peer that waits for a lane, in the order in which it is served.
//!
//! What no lane takes that is up is set aside, so that it holds up nothing behind it; it comes back
//! to its place as soon as another lane is up. Whatever is set aside has not ended yet.

use crate::slab::{KeyedSlab, SlabKey};
use crate::slice::RailSlice;
use std::collections::VecDeque;

/// What goes out next: a slice that waits for another try, or the next one of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    Again(SlabKey),
    Fresh(SlabKey),
}

/// Something that was set aside, and the queue that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetAside {
    Slice(SlabKey),
    Small(SlabKey),
    Large(SlabKey),
}

/// Requests that wait for slices to be cut, and slices that wait to be sent again.
#[derive(Debug, Default)]
pub(crate) struct WaitingWork {
    /// Slices that failed before.
    pub(crate) slices: VecDeque<SlabKey>,
    /// Requests of one slice.
    pub(crate) small: VecDeque<SlabKey>,
    /// Requests of many slices.
    pub(crate) large: VecDeque<SlabKey>,
    /// Bytes that are not posted: uncut ones and those of waiting slices.
    pub(crate) bytes: u64,
    aside: VecDeque<SetAside>,
    turn: u32,
}

/// How many small requests may overtake a large one before it gets its turn.
const OVERTAKING_MAX: u32 = 8;

impl WaitingWork {
    pub(crate) fn is_empty(&self) -> bool {
        self.slices.is_empty()
            && self.small.is_empty()
            && self.large.is_empty()
            && self.aside.is_empty()
    }

    /// A request has nothing left to cut.
    pub(crate) fn forget(&mut self, request: SlabKey) {
        self.pop(request);
    }

    /// Takes a request off the head of its queue.
    fn pop(&mut self, request: SlabKey) -> Option<SetAside> {
        if self.small.front() == Some(&request) {
            return self.small.pop_front().map(SetAside::Small);
        }
        if self.large.front() == Some(&request) {
            return self.large.pop_front().map(SetAside::Large);
        }
        None
    }

    /// The requests at the head of each queue.
    pub(crate) fn fronts(
        &self,
        slices: &KeyedSlab<RailSlice>,
    ) -> impl Iterator<Item = SlabKey> + use<> {
        let of_slice = |key: SlabKey| slices.get(key).map(|slice| slice.request);
        let slice = self.slices.front().and_then(|key| of_slice(*key));
        let aside = self.aside.front().and_then(|aside| match aside {
            SetAside::Slice(key) => of_slice(*key),
            SetAside::Small(key) | SetAside::Large(key) => Some(*key),
        });
        let (small, large) = (self.small.front().copied(), self.large.front().copied());
        [slice, small, large, aside].into_iter().flatten()
    }

    /// The queue that is served next: small requests first, but large ones are not kept waiting
    /// forever.
    pub(crate) fn next_queue(&mut self) -> Option<&mut VecDeque<SlabKey>> {
        self.turn += 1;
        let large_turn = self.turn > OVERTAKING_MAX && !self.large.is_empty();
        if self.small.is_empty() || large_turn {
            self.turn = 0;
            return (!self.large.is_empty()).then_some(&mut self.large);
        }
        Some(&mut self.small)
    }

    /// Sets aside what is at the head of its queue, and no lane that is up can carry.
    pub(crate) fn set_aside(&mut self, candidate: Candidate) {
        let aside = match candidate {
            Candidate::Again(_) => self.slices.pop_front().map(SetAside::Slice),
            Candidate::Fresh(request) => self.pop(request),
        };
        debug_assert!(aside.is_some(), "it was at the head of its queue");
        self.aside.extend(aside);
    }

    pub(crate) fn has_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    /// What was set aside is served again, before what came after it.
    pub(crate) fn bring_back(&mut self) {
        for aside in self.aside.drain(..).rev() {
            match aside {
                SetAside::Slice(key) => self.slices.push_front(key),
                SetAside::Small(key) => self.small.push_front(key),
                SetAside::Large(key) => self.large.push_front(key),
            }
        }
    }

    /// Slices that wait, set aside or not.
    #[cfg(test)]
    pub(crate) fn all_slices(&self) -> Vec<SlabKey> {
        let aside = self.aside.iter().filter_map(|aside| match aside {
            SetAside::Slice(key) => Some(*key),
            SetAside::Small(_) | SetAside::Large(_) => None,
        });
        self.slices.iter().copied().chain(aside).collect()
    }

    /// Drops the slices for which `keep_slice` is false, and what was set aside of requests for
    /// which `keep_request` is; returns the slices.
    pub(crate) fn sweep(
        &mut self,
        keep_slice: impl Fn(SlabKey) -> bool,
        keep_request: impl Fn(SlabKey) -> bool,
    ) -> Vec<SlabKey> {
        let mut dropped = Vec::new();
        let mut judge = |key: SlabKey| {
            let keep = keep_slice(key);
            if !keep {
                dropped.push(key);
            }
            keep
        };
        self.slices.retain(|key| judge(*key));
        self.aside.retain(|aside| match aside {
            SetAside::Slice(key) => judge(*key),
            SetAside::Small(key) | SetAside::Large(key) => keep_request(*key),
        });
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_requests_overtake_a_large_one_but_do_not_starve_it() {
        let mut waiting = WaitingWork::default();
        waiting.large.push_back(SlabKey::from_bits(1));
        waiting.small.extend((0..100).map(|_| SlabKey::from_bits(2)));
        let mut large_turns = 0;
        for _ in 0..90 {
            let queue = waiting.next_queue().unwrap();
            if queue.front() == Some(&SlabKey::from_bits(1)) {
                large_turns += 1;
            } else {
                queue.pop_front();
            }
        }
        assert_eq!(large_turns, 10);
    }

    #[test]
    fn what_was_set_aside_comes_back_in_order_and_before_what_came_after_it() {
        let keys: Vec<SlabKey> = (1..=6).map(SlabKey::from_bits).collect();
        let mut waiting = WaitingWork::default();
        waiting.slices.extend([keys[0], keys[1]]);
        waiting.small.extend([keys[2], keys[3]]);
        waiting.large.extend([keys[4], keys[5]]);
        let before = (waiting.slices.clone(), waiting.small.clone(), waiting.large.clone());
        for candidate in [
            Candidate::Again(keys[0]),
            Candidate::Fresh(keys[2]),
            Candidate::Fresh(keys[3]),
            Candidate::Fresh(keys[4]),
        ] {
            waiting.set_aside(candidate);
        }
        assert_eq!(waiting.slices, [keys[1]]);
        assert!(waiting.small.is_empty() && waiting.large == [keys[5]]);
        waiting.bring_back();
        assert_eq!((waiting.slices, waiting.small, waiting.large), before);
    }
}
