//! Copies and moves of replicas on a shard: those under way, and the tasks and drain jobs that want
//! them.
//! Invariant: what wants a copy hears once how it ended. Each drain job knows the failures of
//! replicas that are there, and of no others.

use std::collections::{BTreeMap, BTreeSet};

use perigee_schemas::Status;

use crate::draining::{Drain, DrainOrder, DrainReport};
use crate::limits::REPAIR_MOVES_PER_CLIENT_MAX;
use crate::list_name::ListName;
use crate::moving::{ReplicaMove, ReplicaMoves};
use crate::read_view::ReadView;
use crate::shard_task::{ShardTask, ShardTasks};
use crate::share::SegmentShare;
use crate::stored::StoredObjects;

#[derive(Debug, Default)]
pub(crate) struct Relocation {
    moves: ReplicaMoves,
    tasks: ShardTasks,
    /// By job.
    drains: BTreeMap<u128, Drain>,
}

impl Relocation {
    /// The moves under way.
    pub(crate) fn moves(&self) -> &ReplicaMoves {
        &self.moves
    }

    /// The move of an object that is under way.
    pub(crate) fn of(&self, object: u32) -> Option<&ReplicaMove> {
        self.moves.get(object)
    }

    /// A move begins; it waits for its client.
    pub(crate) fn begin(&mut self, object: u32, started: ReplicaMove) {
        self.moves.insert(object, started);
    }

    /// A client has a move, which is to be done by `deadline_ms`.
    pub(crate) fn hand_out(&mut self, object: u32, now_ms: u64, deadline_ms: u64) {
        self.moves.take(object, now_ms, deadline_ms);
    }

    /// A move ends without anything to tell: what wants it is over, or tries again by itself.
    pub(crate) fn cancel(&mut self, object: u32) -> Option<ReplicaMove> {
        self.moves.remove(object)
    }

    /// A move ends with a good copy of so many bytes.
    pub(crate) fn end(&mut self, object: u32, payload_bytes: u64) {
        let Some(done) = self.moves.remove(object) else {
            return;
        };
        if let Some(drain) = self.drains.get_mut(&done.job) {
            drain.note_done(payload_bytes);
        }
        if let Some(task) = self.tasks.get_mut(done.job) {
            task.note_done();
        }
    }

    /// The copy of a source has failed. `suspect` is the target's segment if its owner may be gone.
    pub(crate) fn note_failure(
        &mut self,
        job: u128,
        source_generation: u64,
        suspect: Option<u32>,
        now_ms: u64,
        status: Status,
    ) {
        if let Some(drain) = self.drains.get_mut(&job) {
            if let Some(target) = suspect {
                drain.avoid(target, now_ms);
            }
            drain.note_failure(source_generation, now_ms, status);
        }
        if let Some(task) = self.tasks.get_mut(job) {
            task.note_failure(now_ms, status);
        }
    }

    /// Whether no move and no job depends on replicas that go.
    pub(crate) fn is_idle(&self) -> bool {
        self.moves.len() == 0 && self.drains.is_empty()
    }

    /// A replica goes: no job tries it any more.
    pub(crate) fn forget(&mut self, generation: u64) {
        self.drains.values_mut().for_each(|drain| drain.forget(generation));
    }

    /// A drain job, to be put back after its turn; a new one if it is not known.
    pub(crate) fn take_drain(&mut self, job: u128) -> Drain {
        self.drains.remove(&job).unwrap_or_default()
    }

    pub(crate) fn put_drain(&mut self, job: u128, drain: Drain) {
        self.drains.insert(job, drain);
    }

    /// A task, to be put back after its turn unless it has ended.
    pub(crate) fn take_task(&mut self, id: u128) -> Option<ShardTask> {
        self.tasks.remove(id)
    }

    pub(crate) fn put_task(&mut self, id: u128, task: ShardTask) {
        self.tasks.insert(id, task);
    }

    /// The tasks to be looked at next, at most `limit`; all get their turn.
    pub(crate) fn next_tasks(&mut self, limit: usize) -> Vec<u128> {
        self.tasks.next(limit)
    }

    /// Panics unless the moves agree with each other and with what is stored, and drains know
    /// replicas that are there.
    pub(crate) fn check(&self, stored: &StoredObjects) {
        let there: BTreeSet<u64> = stored.replicas.iter().map(|(_, it)| it.generation).collect();
        self.check_jobs(|generation| there.contains(&generation));
        self.check_moves(stored);
    }

    fn check_jobs(&self, is_there: impl Fn(u64) -> bool) {
        self.moves.check();
        self.tasks.check();
        self.drains.values().for_each(|drain| drain.check(&is_there));
    }

    fn check_moves(&self, stored: &StoredObjects) {
        for (object, under_way) in self.moves.iter() {
            let first = stored.keys[object].first;
            let mut complete = stored.replicas.chain(first);
            let has_source = complete.any(|id| id == under_way.source);
            assert!(has_source, "the source of a move is complete");
            let target = &stored.replicas[under_way.target];
            assert_eq!((target.object, target.list()), (object, ListName::Held));
            assert_eq!(target.generation, under_way.generation);
            let source = &stored.replicas[under_way.source];
            assert_ne!(source.segment, target.segment, "a move goes elsewhere");
            assert_eq!(source.payload_bytes, target.payload_bytes);
            assert_eq!(source.part(), target.part());
        }
    }

    /// The replica to copy for a wish: another one after each failure, and none of an owner that
    /// has enough to do.
    pub(crate) fn source_for_wish(
        &self,
        view: ReadView<'_>,
        there: &[u32],
        failed: u32,
    ) -> Option<u32> {
        let is_idle =
            |id: &u32| self.moves.wishes_of(view.carrier_of(*id)) < REPAIR_MOVES_PER_CLIENT_MAX;
        let first = failed as usize % there.len();
        there[first..].iter().chain(&there[..first]).copied().find(is_idle)
    }

    /// How a drain job stands.
    pub(crate) fn report(
        &self,
        view: ReadView<'_>,
        drain: &Drain,
        order: &DrainOrder,
    ) -> DrainReport {
        let replicas = order.sources.iter().map(|segment| view.stored.replicas.count_in(*segment));
        let quarantine = view.space.quarantine();
        let leased = order.sources.iter().map(|segment| quarantine.leased_of(*segment));
        let active = self.moves.count_of(order.job);
        // What their owners are still to announce lies there, too.
        let unheard = order
            .sources
            .iter()
            .filter(|segment| view.space.get(**segment).is_some_and(SegmentShare::is_rebuilding));
        drain.report(replicas.sum(), leased.sum::<u64>() + unheard.count() as u64, active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moving::Purpose;
    use crate::shard_task::{TaskAction, TaskRequest};

    const DRAIN: u128 = 1;
    const TASK: u128 = 2;

    fn wanted_by(job: u128, purpose: Purpose) -> ReplicaMove {
        ReplicaMove {
            job,
            purpose,
            client: 7,
            source: 0,
            target: 1,
            generation: 9,
            taken_ms: None,
            deadline_ms: 50,
        }
    }

    fn with_both() -> Relocation {
        let mut relocation = Relocation::default();
        let action = TaskAction::Copy { targets: vec!["a".to_owned()] };
        let request = TaskRequest { key: b"k".as_slice().into(), action };
        relocation.put_drain(DRAIN, Drain::default());
        relocation.put_task(TASK, ShardTask::new(request, 1));
        relocation.begin(3, wanted_by(DRAIN, Purpose::Drain));
        relocation.begin(4, wanted_by(TASK, Purpose::Copy));
        relocation.check_jobs(|_| true);
        relocation
    }

    #[test]
    fn only_what_wants_a_copy_hears_of_its_end() {
        let mut relocation = with_both();
        relocation.end(3, 100);
        relocation.end(3, 100);
        let drain = relocation.take_drain(DRAIN);
        let report = drain.report(0, 0, 0);
        assert_eq!((report.succeeded, report.migrated_bytes), (1, 100));
        let task = relocation.take_task(TASK).unwrap();
        assert_eq!(task.outcome(), None);
        relocation.put_task(TASK, task);
        relocation.put_drain(DRAIN, drain);
        relocation.end(4, 100);
        assert_eq!(relocation.take_drain(DRAIN).report(0, 0, 0).succeeded, 1);
        let task = relocation.take_task(TASK).unwrap();
        assert_eq!((task.outcome(), relocation.moves().len()), (Some(Ok(())), 0));
    }

    #[test]
    fn a_failure_pauses_what_wants_the_copy() {
        let mut relocation = with_both();
        relocation.cancel(3);
        relocation.note_failure(DRAIN, 5, Some(8), 0, Status::TransferFail);
        relocation.note_failure(TASK, 5, None, 0, Status::TransferFail);
        relocation.check_jobs(|generation| generation == 5);
        let drain = relocation.take_drain(DRAIN);
        assert!(!drain.may_try(5, 1) && drain.may_try(6, 1) && !drain.may_use(8, 1));
        let task = relocation.take_task(TASK).unwrap();
        assert!(!task.may_try(1));
        relocation.put_drain(DRAIN, drain);
        relocation.forget(5);
        relocation.check_jobs(|_| false);
        assert!(relocation.take_drain(DRAIN).may_try(5, 1));
    }
}
