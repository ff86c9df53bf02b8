//! What a shard knows of a drain job: how far its walk is, what failed how often, what came of it.
//! Invariant: units that failed are known by their generation only while their replica is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use perigee_schemas::Status;

use crate::limits::{
    NO_ROOM_PATIENCE_MS, RETRY_PAUSE_MS, TARGET_PAUSE_MS, UNIT_RETRIES_MAX, UNITS_FAILED_MAX,
    UNITS_NOTED_MAX,
};
use crate::loan::Need;

/// What a shard is to do for a drain job next.
#[derive(Debug, Clone)]
pub struct DrainOrder {
    /// The job.
    pub job: u128,
    /// Numbers of the segments that are to become empty.
    pub sources: Arc<[u32]>,
    /// Numbers of the segments that may take their objects; all that take objects if empty.
    pub targets: Arc<[u32]>,
    /// Moves that may be under way at the same time on this shard.
    pub allowance: u32,
}

/// How a drain job stands on one shard, or on several together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// Moves under way.
    pub active: u32,
    /// Replicas that wait: for a writer, for room, for the next try, and old places for the end of
    /// their leases.
    pub blocked: u64,
    /// Replicas that were moved, since the job began.
    pub succeeded: u64,
    /// Replicas that could not be moved and are left where they are.
    pub failed: u64,
    /// Payload bytes that were moved, since the job began.
    pub migrated_bytes: u64,
    /// Why a replica could not be moved, the last time.
    pub last_failure: Option<Status>,
    /// Whether nothing is left to do here.
    pub is_done: bool,
    /// Room in target segments to be borrowed from other shards.
    pub needs: Vec<Need>,
}

impl DrainReport {
    /// Adds what another shard says of the same job.
    pub fn merge(&mut self, other: &Self) {
        self.active += other.active;
        self.blocked += other.blocked;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.migrated_bytes += other.migrated_bytes;
        self.last_failure = other.last_failure.or(self.last_failure);
        self.is_done &= other.is_done;
    }
}

/// Tries of one replica.
#[derive(Debug, Clone, Copy)]
struct DrainTries {
    failed: u32,
    /// When it found no room for the first time since it last found some.
    without_room_since_ms: Option<u64>,
    next_ms: u64,
}

/// State of a job on a shard.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    pub(crate) sources: Arc<[u32]>,
    /// Number of the replica that the walk looks at next.
    pub(crate) cursor: u32,
    /// When the next walk may begin.
    pub(crate) next_walk_ms: u64,
    /// Replicas that the present walk had to leave.
    pub(crate) left: u64,
    /// Those that the last whole walk had to leave.
    pub(crate) left_before: u64,
    pub(crate) succeeded: u64,
    pub(crate) migrated_bytes: u64,
    pub(crate) last_failure: Option<Status>,
    /// By generation of the replica.
    tries: BTreeMap<u64, DrainTries>,
    given_up: usize,
    /// Targets that are left alone for a while, and until when.
    avoided: BTreeMap<u32, u64>,
}

impl Drain {
    /// Whether a replica may be tried now.
    pub(crate) fn may_try(&self, generation: u64, now_ms: u64) -> bool {
        match self.tries.get(&generation) {
            Some(tries) => tries.next_ms <= now_ms,
            None => self.tries.len() < UNITS_NOTED_MAX,
        }
    }

    /// Whether a replica is not tried any more.
    pub(crate) fn has_given_up(&self, generation: u64) -> bool {
        self.tries.get(&generation).is_some_and(|tries| tries.next_ms == u64::MAX)
    }

    /// Replicas that are not tried any more.
    pub(crate) fn given_up(&self) -> usize {
        self.given_up
    }

    /// Whether so many could not be moved that the job ends with those under way.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.given_up >= UNITS_FAILED_MAX
    }

    /// The owner of a target did not take a copy: it may be gone, and other copies need not try.
    pub(crate) fn avoid(&mut self, target: u32, now_ms: u64) {
        self.avoided.retain(|_, until_ms| *until_ms > now_ms);
        let until_ms = now_ms.saturating_add(TARGET_PAUSE_MS);
        self.avoided.insert(target, until_ms);
    }

    /// Whether a target is not left alone at the moment.
    pub(crate) fn may_use(&self, target: u32, now_ms: u64) -> bool {
        let until_ms = self.avoided.get(&target);
        until_ms.is_none_or(|until_ms| *until_ms <= now_ms)
    }

    /// A copy failed.
    pub(crate) fn note_failure(&mut self, generation: u64, now_ms: u64, status: Status) {
        self.last_failure = Some(status);
        let tries = self.tries_of(generation, now_ms);
        tries.failed += 1;
        tries.without_room_since_ms = None;
        let failed = tries.failed;
        if failed > UNIT_RETRIES_MAX {
            self.give_up(generation);
        } else {
            tries.next_ms = now_ms.saturating_add(RETRY_PAUSE_MS << (failed - 1));
        }
    }

    /// No target had room. That is not a failure of the replica: it waits until eviction, other
    /// shards or new segments bring some, but not forever.
    pub(crate) fn note_no_room(&mut self, generation: u64, now_ms: u64) {
        let tries = self.tries_of(generation, now_ms);
        let since_ms = *tries.without_room_since_ms.get_or_insert(now_ms);
        tries.next_ms = now_ms.saturating_add(RETRY_PAUSE_MS);
        if now_ms.saturating_sub(since_ms) > NO_ROOM_PATIENCE_MS {
            self.last_failure = Some(Status::NoAvailableHandle);
            self.give_up(generation);
        }
    }

    /// The replica is gone or on its way.
    pub(crate) fn forget(&mut self, generation: u64) {
        if let Some(tries) = self.tries.remove(&generation)
            && tries.next_ms == u64::MAX
        {
            self.given_up -= 1;
        }
    }

    /// Panics unless what is known of failures is about replicas that are there.
    pub(crate) fn check(&self, is_there: impl Fn(u64) -> bool) {
        for generation in self.tries.keys() {
            assert!(is_there(*generation), "replica {generation} is gone");
        }
        let given_up = self.tries.values().filter(|it| it.next_ms == u64::MAX);
        assert_eq!(self.given_up, given_up.count());
    }

    fn tries_of(&mut self, generation: u64, now_ms: u64) -> &mut DrainTries {
        self.tries.entry(generation).or_insert(DrainTries {
            failed: 0,
            without_room_since_ms: None,
            next_ms: now_ms,
        })
    }

    fn give_up(&mut self, generation: u64) {
        if let Some(tries) = self.tries.get_mut(&generation) {
            debug_assert_ne!(tries.next_ms, u64::MAX, "given up once");
            tries.next_ms = u64::MAX;
            self.given_up += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_tried_once_and_three_times_more_with_growing_pauses() {
        let mut drain = Drain::default();
        let mut now_ms = 0;
        for pause_ms in [RETRY_PAUSE_MS, 2 * RETRY_PAUSE_MS, 4 * RETRY_PAUSE_MS] {
            assert!(drain.may_try(5, now_ms));
            drain.note_failure(5, now_ms, Status::TransferFail);
            assert!(!drain.may_try(5, now_ms + pause_ms - 1));
            now_ms += pause_ms;
        }
        assert!(drain.may_try(5, now_ms) && !drain.has_given_up(5));
        drain.note_failure(5, now_ms, Status::TransferFail);
        assert!(drain.has_given_up(5) && !drain.may_try(5, u64::MAX - 1));
        assert_eq!(drain.given_up(), 1);
        drain.forget(5);
        assert_eq!(drain.given_up(), 0);
    }

    #[test]
    fn a_replica_without_room_waits_as_long_as_patience_lasts() {
        let mut drain = Drain::default();
        drain.note_no_room(5, 100);
        drain.note_no_room(5, 100 + NO_ROOM_PATIENCE_MS);
        assert!(!drain.has_given_up(5));
        drain.note_no_room(5, 101 + NO_ROOM_PATIENCE_MS);
        assert!(drain.has_given_up(5));
        assert_eq!(drain.last_failure, Some(Status::NoAvailableHandle));
    }
}
