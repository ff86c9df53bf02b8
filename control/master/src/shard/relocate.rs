//! Moves that clients carry out: handed out, ended, given up. Invariant: a replica takes another's
//! place only while that one is still the object's, so that an object that was removed or rewritten
//! in between never comes back.

use perigee_schemas::Status;
use perigee_schemas::record::RecordOp;

use crate::list_name::ListName;
use crate::move_task::{EndedMoves, MoveTask};
use crate::moving::{Purpose, ReplicaMove};
use crate::put_name::PutName;

use super::KeyShard;
use super::put_end::code;
use super::space::Reuse;

impl KeyShard {
    /// Gives a client up to `limit` moves of objects in its segments.
    pub fn take_moves(&mut self, now_ms: u64, client: u128, limit: usize) -> Vec<MoveTask> {
        self.begin(now_ms);
        let mut tasks = Vec::new();
        while tasks.len() < limit
            && let Some(object) = self.relocation.moves().next_of(client)
            && let Some(task) = self.relocating().take_one(object)
        {
            tasks.push(task);
        }
        tasks
    }

    /// Ends moves: a good copy takes the place of the replica it was made of, whose space is kept
    /// until its readers' leases end, or joins it if a task wants one more replica. One status per
    /// key.
    ///
    /// Status -1400: the move is not under way (any more), so the copy is of no use; -601: another
    /// client's move; -600: a column has the wrong length.
    pub fn end_moves(&mut self, now_ms: u64, ended: &EndedMoves<'_>, out: &mut Vec<i32>) {
        self.begin(now_ms);
        let keys = ended.keys.len();
        out.clear();
        out.resize(keys, Status::InvalidParams.code());
        let lengths = [ended.generations.len(), ended.status.len(), ended.in_flight.len()];
        if lengths.iter().any(|length| *length != keys) {
            return;
        }
        for (at, out) in out.iter_mut().enumerate() {
            let name = PutName { client: ended.client, generation: ended.generations[at] };
            let status = Status::from_peer(ended.status[at]);
            let result = self.end_move(name, ended.keys[at], status, ended.in_flight[at]);
            *out = code(result);
        }
    }

    fn end_move(
        &mut self,
        name: PutName,
        key: &[u8],
        status: Status,
        in_flight: bool,
    ) -> Result<(), Status> {
        let object = self.stored.find(key);
        let under_way = object.and_then(|object| Some((object, *self.relocation.of(object)?)));
        let under_way = under_way.filter(|(_, it)| it.generation == name.generation);
        let Some((object, under_way)) = under_way else {
            if !in_flight {
                self.free_discarded(name);
            }
            return Err(Status::TaskNotFound);
        };
        if under_way.client != name.client {
            return Err(Status::IllegalClient);
        }
        let readable = self.space.is_readable(self.stored.replicas[under_way.target].segment);
        match status {
            Status::Ok if readable => self.settle_move(object, &under_way),
            Status::Ok => self.fail_move(object, in_flight, Status::SegmentNotFound),
            status => self.fail_move(object, in_flight, status),
        }
        Ok(())
    }

    /// Puts the copy in the place of its source, or behind it.
    fn settle_move(&mut self, object: u32, done: &ReplicaMove) {
        let payload_bytes = self.stored.replicas[done.target].payload_bytes;
        let wanted = self.wishes.wanted_replicas(&self.stored, &self.rebuild, object);
        self.relocation.end(object, payload_bytes);
        let (source, target) =
            (&self.stored.replicas[done.source], &self.stored.replicas[done.target]);
        debug_assert_eq!((source.object, target.object), (object, object));
        debug_assert_eq!(source.payload_bytes, target.payload_bytes);
        debug_assert_eq!(source.part(), target.part());
        debug_assert_ne!(source.segment, target.segment);
        if source.is_head() {
            self.stored.replicas.set_head(done.target);
        }
        match done.purpose {
            Purpose::Copy | Purpose::Repair | Purpose::Heat => {
                self.stored.replicas.put_behind(done.target, done.source);
                self.reports.joined(&self.stored, object, done.target);
            }
            Purpose::Promotion => {
                self.stored.replicas.put_before(done.target, self.stored.keys[object].first);
                self.stored.keys[object].first = done.target;
                self.reports.joined(&self.stored, object, done.target);
                self.counters.promoted_bytes += payload_bytes;
            }
            Purpose::Drain | Purpose::Move => self.replace_by(object, done.source, done.target),
        }
        match done.purpose {
            Purpose::Heat => self.stored.enlist_extra(done.target),
            _ => {
                let list = self.stored.list_of(object);
                self.stored.enlist(done.target, list);
            }
        }
        self.owner_notes().note(done.target, RecordOp::Commit);
        self.owner_notes().note_wanted(object, wanted);
        self.counters.relocation(done.purpose).ended += 1;
        match done.purpose {
            Purpose::Drain | Purpose::Move | Purpose::Copy => {
                self.counters.moved_replicas += 1;
                self.counters.moved_bytes += payload_bytes;
            }
            Purpose::Repair | Purpose::Heat => {
                self.wishes.note_done(object);
                self.wishes.set_due(object, self.stored.clock.now_ms());
            }
            Purpose::Promotion => {}
        }
    }

    /// Makes a copy the first complete replica of an object instead of the one it was made of.
    fn replace_by(&mut self, object: u32, source: u32, target: u32) {
        let lease = self.stored.read_lease(object);
        let others = self.stored.replicas.unchain(self.stored.keys[object].first, source);
        self.stored.replicas.put_before(target, others);
        self.stored.keys[object].first = target;
        if self.stored.replicas[source].medium() != self.stored.replicas[target].medium() {
            self.reports.joined(&self.stored, object, target);
            self.reports.left(&self.stored, object, source, target);
        }
        self.drop_replica(source, Reuse::AfterReads(lease));
    }

    /// Gives a move up; its job or task tries again later.
    pub(super) fn fail_move(&mut self, object: u32, in_flight: bool, status: Status) {
        let Some(failed) = self.relocation.of(object).copied() else {
            return;
        };
        let target = self.stored.replicas[failed.target].segment;
        self.cancel_move(object, in_flight);
        self.counters.failed_moves += 1;
        if failed.taken_ms.is_some() {
            self.counters.relocation(failed.purpose).revoked += 1;
        }
        let generation = self.stored.replicas[failed.source].generation;
        let suspect = in_flight.then_some(target);
        self.relocation.note_failure(
            failed.job,
            generation,
            suspect,
            self.stored.clock.now_ms(),
            status,
        );
        if failed.purpose.is_of_wish() {
            self.wishes.note_failure(object, self.stored.clock.now_ms(), status);
        }
    }

    /// Drops the target of a move. If bytes may still arrive there, its space is quarantined like
    /// that of a discarded put.
    pub(super) fn cancel_move(&mut self, object: u32, in_flight: bool) {
        let Some(ended) = self.relocation.cancel(object) else {
            return;
        };
        let reuse = match ended.taken_ms.filter(|_| in_flight) {
            Some(taken_ms) => {
                let release_ms = taken_ms.saturating_add(self.settings.put_release_timeout_ms);
                Reuse::At(release_ms, ended.name())
            }
            None => Reuse::Now,
        };
        debug_assert_eq!(self.stored.replicas[ended.target].list(), ListName::Held);
        if ended.purpose.is_of_wish() {
            self.wishes.set_due(object, self.stored.clock.now_ms());
        }
        self.drop_replica(ended.target, reuse);
    }

    /// Gives up moves whose deadline has passed; returns what is left of the budget.
    pub(super) fn give_up_moves(&mut self, mut budget: usize) -> usize {
        while budget > 0
            && let Some(object) = self.relocation.moves().overdue(self.stored.clock.now_ms())
        {
            self.fail_move(object, true, Status::RpcTimeout);
            budget -= 1;
        }
        budget
    }

    /// A replica is about to be dropped: what depends on it ends.
    pub(super) fn before_drop(&mut self, id: u32) {
        let (object, generation) =
            (self.stored.replicas[id].object, self.stored.replicas[id].generation);
        if self.tier.demotions.of(object).is_some_and(|it| it.source == id) {
            self.demoting().cancel(object);
        }
        if self.relocation.is_idle() {
            return;
        }
        let is_source = |under_way: &ReplicaMove| under_way.source == id;
        if self.relocation.of(object).is_some_and(is_source) {
            self.cancel_move(object, true);
        }
        self.relocation.forget(generation);
    }

    /// Whether what lies on disks alone is copied to memory.
    pub fn promotes(&self) -> bool {
        self.settings.promotion.is_some()
    }

    /// Whether moves wait for a client.
    pub fn has_moves(&self, client: u128) -> bool {
        self.relocation.moves().next_of(client).is_some()
    }
}
