//! What a shard knows of a drain job: how far its walk is, what failed how often, what came of it.
//! Invariant: units that failed are known by their generation only while their replica is there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use perigee_schemas::Status;
use perigee_schemas::extent::extent_bytes;

use crate::destination::Destination;
use crate::limits::{
    DRAIN_STEP_REPLICAS, DRAIN_WALK_PAUSE_MS, NO_ROOM_PATIENCE_MS, TARGET_PAUSE_MS,
    UNIT_RETRIES_MAX, UNITS_FAILED_MAX, UNITS_NOTED_MAX,
};
use crate::loan::Need;
use crate::pending::PendingPuts;
use crate::read_view::ReadView;
use crate::tries::{RetryRule, Tries};

const RULE: RetryRule = RetryRule {
    retries_max: UNIT_RETRIES_MAX,
    pauses_grow: true,
    no_room_patience_ms: Some(NO_ROOM_PATIENCE_MS),
};

/// What a shard is to do for a drain job next.
#[derive(Debug, Clone)]
pub struct DrainOrder {
    /// Identity of the drain job that the order belongs to.
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
    /// Whether replicas wait because no target has room.
    pub waits_for_room: bool,
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
        self.waits_for_room |= other.waits_for_room;
        self.is_done &= other.is_done;
    }
}

/// State of a job on a shard.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// Number of the replica that the walk looks at next.
    cursor: u32,
    /// When the next walk may begin.
    next_walk_ms: u64,
    /// Replicas that the present walk had to leave.
    left: u64,
    /// Those that the last whole walk had to leave.
    left_before: u64,
    succeeded: u64,
    migrated_bytes: u64,
    last_failure: Option<Status>,
    /// By generation of the replica.
    tries: BTreeMap<u64, Tries>,
    given_up: usize,
    /// Targets that are left alone for a while, and until when.
    avoided: BTreeMap<u32, u64>,
}

impl Drain {
    /// The numbers of the replicas that a turn looks at, of all below `bound`; `None` while the
    /// walk pauses or the job ends.
    pub(crate) fn next_step(&self, now_ms: u64, bound: u32) -> Option<Range<u32>> {
        let end = bound.min(self.cursor.saturating_add(DRAIN_STEP_REPLICAS));
        let goes_on = !self.is_hopeless() && self.next_walk_ms <= now_ms;
        goes_on.then_some(self.cursor..end)
    }

    /// The turn has looked at all replicas before `cursor`. At the end of a walk the next one
    /// begins after a pause.
    pub(crate) fn end_step(&mut self, now_ms: u64, cursor: u32, bound: u32) {
        self.cursor = cursor;
        if cursor >= bound {
            self.cursor = 0;
            self.next_walk_ms = now_ms.saturating_add(DRAIN_WALK_PAUSE_MS);
            self.left_before = std::mem::take(&mut self.left);
        }
    }

    /// A replica has to wait.
    pub(crate) fn leave(&mut self) {
        self.left += 1;
    }

    /// A replica has a copy in a target instead.
    pub(crate) fn note_done(&mut self, payload_bytes: u64) {
        self.succeeded += 1;
        self.migrated_bytes += payload_bytes;
    }

    /// How the job stands, with `replicas` in its sources, old places of `leased` ones, and
    /// `active` moves under way.
    pub(crate) fn report(&self, replicas: usize, leased: u64, active: u32) -> DrainReport {
        // Those that were given up are counted as failed.
        let left = if replicas == self.given_up { 0 } else { self.left_before };
        let nothing_to_try = replicas == self.given_up || self.is_hopeless();
        DrainReport {
            active,
            blocked: left + leased,
            succeeded: self.succeeded,
            failed: self.given_up as u64,
            migrated_bytes: self.migrated_bytes,
            last_failure: self.last_failure,
            waits_for_room: self.tries.values().any(Tries::waits_for_room),
            is_done: active == 0 && leased == 0 && nothing_to_try,
            needs: Vec::new(),
        }
    }

    /// Whether a replica may be tried now.
    pub(crate) fn may_try(&self, generation: u64, now_ms: u64) -> bool {
        match self.tries.get(&generation) {
            Some(tries) => tries.may_try(now_ms),
            None => self.tries.len() < UNITS_NOTED_MAX,
        }
    }

    /// Whether a replica is not tried any more.
    pub(crate) fn has_given_up(&self, generation: u64) -> bool {
        self.tries.get(&generation).is_some_and(|tries| tries.given_up().is_some())
    }

    /// Whether so many could not be moved that the job ends with those under way.
    fn is_hopeless(&self) -> bool {
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
        self.change(generation, |tries| tries.note_failure(now_ms, status, &RULE));
    }

    /// No target had room.
    pub(crate) fn note_no_room(&mut self, generation: u64, now_ms: u64) {
        self.change(generation, |tries| tries.note_no_room(now_ms, &RULE));
        if self.has_given_up(generation) {
            self.last_failure = Some(Status::NoAvailableHandle);
        }
    }

    fn change(&mut self, generation: u64, change: impl FnOnce(&mut Tries)) {
        let tries = self.tries.entry(generation).or_default();
        debug_assert!(tries.given_up().is_none(), "given up once");
        change(tries);
        self.given_up += usize::from(tries.given_up().is_some());
    }

    /// The replica is gone or on its way.
    pub(crate) fn forget(&mut self, generation: u64) {
        if let Some(tries) = self.tries.remove(&generation)
            && tries.given_up().is_some()
        {
            self.given_up -= 1;
        }
    }

    /// Panics unless what is known of failures is about replicas that are there.
    pub(crate) fn check(&self, is_there: impl Fn(u64) -> bool) {
        for generation in self.tries.keys() {
            assert!(is_there(*generation), "replica {generation} is gone");
        }
        self.tries.values().for_each(|tries| tries.check(&RULE));
        let given_up = self.tries.values().filter(|tries| tries.given_up().is_some());
        assert_eq!(self.given_up, given_up.count());
    }

    /// The targets for a replica: those that do not hold its object, or its part of it, and are not
    /// left alone, on hosts without another replica if there is room.
    pub(crate) fn destination(
        &self,
        view: ReadView<'_>,
        pending: &PendingPuts,
        targets: &[u32],
        id: u32,
    ) -> Destination {
        let live = view.space.live().iter().copied();
        let mut open: Vec<u32> =
            live.filter(|segment| targets.is_empty() || targets.contains(segment)).collect();
        let (object, part) = (view.stored.replicas[id].object, view.stored.replicas[id].part());
        open.retain(|segment| part.is_none() || view.space.takes_parts(*segment));
        let complete = view.stored.keys[object].first;
        let alike = || {
            let complete = view.stored.replicas.chain(complete);
            complete.filter(move |other| view.stored.replicas[*other].part() == part)
        };
        let held = |segment: &u32| alike().any(|id| view.stored.replicas[id].segment == *segment);
        if !open.is_empty() && open.iter().all(held) {
            return Destination::Held;
        }
        open.retain(|segment| {
            let taken = held(segment) || pending.is_written_in(view.stored, object, *segment);
            !taken && self.may_use(*segment, view.stored.clock.now_ms())
        });
        let source = view.stored.replicas[id].segment;
        let others = alike().map(|id| view.stored.replicas[id].segment);
        let others: Vec<u32> = others.filter(|segment| *segment != source).collect();
        let bytes = extent_bytes(view.stored.replicas[id].payload_bytes);
        let is_better = |segment: &u32| {
            let is_apart = others.iter().all(|other| !view.space.is_same_host(*segment, *other));
            is_apart && view.space.stays_below(*segment, bytes, 1.0)
        };
        if open.iter().any(is_better) {
            open.retain(is_better);
        }
        Destination::Open(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_was_given_up_counts_until_it_is_gone() {
        let mut drain = Drain::default();
        let mut now_ms = 0;
        for _ in 0..=UNIT_RETRIES_MAX {
            assert!(drain.may_try(5, now_ms) && !drain.has_given_up(5));
            drain.note_failure(5, now_ms, Status::TransferFail);
            drain.leave();
            drain.end_step(now_ms, 1, 1);
            drain.check(|generation| generation == 5);
            now_ms += NO_ROOM_PATIENCE_MS;
        }
        let report = drain.report(1, 0, 0);
        assert_eq!((report.failed, report.is_done), (1, true), "nothing is left to try");
        assert_eq!(report.blocked, 0, "it waits for nothing");
        assert_eq!(report.last_failure, Some(Status::TransferFail));
        assert!(!drain.report(2, 0, 0).is_done && !drain.report(1, 1, 0).is_done);
        drain.forget(5);
        assert_eq!(drain.report(1, 0, 0).failed, 0);
    }

    #[test]
    fn missing_room_ends_a_replica_with_its_own_reason() {
        let mut drain = Drain::default();
        drain.note_no_room(5, 100);
        assert_eq!(drain.report(1, 0, 0).last_failure, None);
        assert!(drain.report(1, 0, 0).waits_for_room);
        drain.note_no_room(5, 101 + NO_ROOM_PATIENCE_MS);
        assert!(!drain.report(1, 0, 0).waits_for_room, "it is given up");
        assert_eq!(drain.report(1, 0, 0).last_failure, Some(Status::NoAvailableHandle));
    }

    #[test]
    fn a_walk_goes_in_steps_and_pauses_at_its_end() {
        let (mut drain, bound) = (Drain::default(), DRAIN_STEP_REPLICAS + 1);
        assert_eq!(drain.next_step(0, bound), Some(0..DRAIN_STEP_REPLICAS));
        drain.leave();
        drain.end_step(0, DRAIN_STEP_REPLICAS, bound);
        assert_eq!(drain.report(1, 0, 0).blocked, 0, "the walk goes on");
        assert_eq!(drain.next_step(0, bound), Some(DRAIN_STEP_REPLICAS..bound));
        drain.end_step(0, bound, bound);
        assert_eq!(drain.report(1, 0, 0).blocked, 1);
        assert_eq!(drain.next_step(DRAIN_WALK_PAUSE_MS - 1, bound), None);
        let again = drain.next_step(DRAIN_WALK_PAUSE_MS, bound);
        assert_eq!(again, Some(0..DRAIN_STEP_REPLICAS));
    }
}
