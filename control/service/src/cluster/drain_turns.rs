//! What the first shard remembers of drain jobs between turns.
//! Invariant: one turn is made at a time, and what a shard may begin is what the other shards leave
//! of a job's allowance.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Turns of drain jobs, and the moves under way when each shard was asked last.
#[derive(Debug, Default)]
pub(super) struct DrainTurns {
    turning: Cell<bool>,
    /// By job: moves under way, by shard.
    active: RefCell<BTreeMap<u128, Vec<u32>>>,
}

impl DrainTurns {
    /// Takes the turn; false while it is taken.
    pub(super) fn begin(&self) -> bool {
        !self.turning.replace(true)
    }

    /// Gives the turn back.
    pub(super) fn end(&self) {
        debug_assert!(self.turning.get(), "it was taken");
        self.turning.set(false);
    }

    /// Moves of a job that shard `index` of `shards` may have under way. Between turns those of
    /// others only become fewer.
    pub(super) fn allowance(&self, job: u128, index: usize, shards: usize, of_job: u32) -> u32 {
        let mut jobs = self.active.borrow_mut();
        let active = jobs.entry(job).or_insert_with(|| vec![0; shards]);
        let others = active.iter().enumerate().filter(|(at, _)| *at != index);
        let theirs: u32 = others.map(|(_, moves)| *moves).sum();
        of_job.saturating_sub(theirs)
    }

    /// Notes how many moves of a job a shard has under way.
    pub(super) fn note(&self, job: u128, index: usize, active: u32) {
        if let Some(shards) = self.active.borrow_mut().get_mut(&job) {
            shards[index] = active;
        }
    }

    /// Forgets a job that has ended.
    pub(super) fn forget(&self, job: u128) {
        self.active.borrow_mut().remove(&job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_may_begin_what_the_others_leave() {
        let turns = DrainTurns::default();
        assert_eq!(turns.allowance(7, 0, 2, 4), 4);
        turns.note(7, 0, 3);
        assert_eq!(turns.allowance(7, 1, 2, 4), 1, "three of four are under way");
        assert_eq!(turns.allowance(7, 0, 2, 4), 4, "its own do not count");
        turns.note(7, 1, 9);
        assert_eq!(turns.allowance(7, 0, 2, 4), 0, "never below zero");
        turns.forget(7);
        assert_eq!(turns.allowance(7, 0, 2, 4), 4);
    }

    #[test]
    fn a_turn_is_made_by_one_at_a_time() {
        let turns = DrainTurns::default();
        assert!(turns.begin() && !turns.begin());
        turns.end();
        assert!(turns.begin());
    }
}
