//! What the first shard remembers of copies between turns: those of each drain job, and those of
//! tasks.
//! Invariant: one turn of drain jobs is made at a time, and what a shard may begin is what the
//! other shards leave of an allowance.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// What copies are made for, and what has an allowance of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CopiesFor {
    /// All tasks.
    Tasks,
    /// All repairs.
    Repairs,
    /// This drain job.
    Drain(u128),
}

/// Turns, and the copies under way when each shard was asked last.
#[derive(Debug, Default)]
pub(super) struct CopyTurns {
    turning: Cell<bool>,
    /// Copies under way, by shard.
    active: RefCell<BTreeMap<CopiesFor, Vec<u32>>>,
}

impl CopyTurns {
    /// Takes the turn of drain jobs; false while it is taken.
    pub(super) fn begin(&self) -> bool {
        !self.turning.replace(true)
    }

    /// Gives the turn back.
    pub(super) fn end(&self) {
        debug_assert!(self.turning.get(), "it was taken");
        self.turning.set(false);
    }

    /// Whether the turn is taken.
    pub(super) fn is_turning(&self) -> bool {
        self.turning.get()
    }

    /// Copies that shard `index` of `shards` may have under way, of `allowed` on all of them.
    /// Between turns those of others only become fewer.
    pub(super) fn allowance(
        &self,
        copies_for: CopiesFor,
        index: usize,
        shards: usize,
        allowed: u32,
    ) -> u32 {
        let mut active = self.active.borrow_mut();
        let active = active.entry(copies_for).or_insert_with(|| vec![0; shards]);
        debug_assert_eq!(active.len(), shards, "the shards of a master stay the same");
        debug_assert!(index < shards, "a shard is one of all");
        let others = active.iter().enumerate().filter(|(at, _)| *at != index);
        let theirs: u32 = others.map(|(_, copies)| *copies).sum();
        allowed.saturating_sub(theirs)
    }

    /// Notes how many copies a shard has under way.
    pub(super) fn note(&self, copies_for: CopiesFor, index: usize, copies: u32) {
        if let Some(shards) = self.active.borrow_mut().get_mut(&copies_for) {
            shards[index] = copies;
        }
    }

    /// Whether copies are under way.
    pub(super) fn is_active(&self, copies_for: CopiesFor) -> bool {
        let active = self.active.borrow();
        active.get(&copies_for).is_some_and(|shards| shards.iter().any(|copies| *copies > 0))
    }

    /// Forgets a job that has ended.
    pub(super) fn forget(&self, job: u128) {
        self.active.borrow_mut().remove(&CopiesFor::Drain(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_may_begin_what_the_others_leave() {
        let turns = CopyTurns::default();
        for copies_for in [CopiesFor::Tasks, CopiesFor::Drain(7)] {
            assert_eq!(turns.allowance(copies_for, 0, 2, 4), 4);
            assert!(!turns.is_active(copies_for));
            turns.note(copies_for, 0, 3);
            assert!(turns.is_active(copies_for));
            assert_eq!(turns.allowance(copies_for, 1, 2, 4), 1, "three of four are under way");
            assert_eq!(turns.allowance(copies_for, 0, 2, 4), 4, "its own do not count");
            turns.note(copies_for, 1, 9);
            assert_eq!(turns.allowance(copies_for, 0, 2, 4), 0, "never below zero");
        }
        turns.forget(7);
        assert_eq!(turns.allowance(CopiesFor::Drain(7), 0, 2, 4), 4);
    }

    #[test]
    fn a_turn_is_made_by_one_at_a_time() {
        let turns = CopyTurns::default();
        assert!(turns.begin() && !turns.begin());
        turns.end();
        assert!(turns.begin());
    }
}
