//! What owners hear of their segments: each replica that is complete from now on, changes its
//! pins, or is gone.
//! Invariant: a replica is noted as gone in the step that frees its space, before any other step
//! can hand that out.

use perigee_schemas::record::{Record, RecordOp};

use crate::key_events::KeyEventQueue;
use crate::limits::SNAPSHOT_STEP_REPLICAS;
use crate::replica::Replica;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
    /// From now on, changes of keys go into this queue.
    pub fn report_to(&mut self, queue: KeyEventQueue) {
        self.reports.open(queue);
    }

    /// From now on [`KeyShard::take_records`] tells what becomes of a segment; false if it is not
    /// mounted memory. What lies there already comes from [`KeyShard::snapshot`].
    pub fn follow(&mut self, segment: u32) -> bool {
        let is_memory = self.space.readable(segment).is_some_and(|share| share.is_memory());
        if is_memory {
            self.outbox.follow(segment);
        }
        is_memory
    }

    /// No owner follows a segment any more.
    pub fn unfollow(&mut self, segment: u32) {
        self.outbox.forget(segment);
    }

    /// Takes the records of a segment, as they follow each other in a journal; `None` for them if
    /// there were too many, so that who follows must begin again.
    pub fn take_records(&mut self) -> Option<(u32, Option<Vec<u8>>)> {
        self.outbox.take()
    }

    /// Notes complete replicas of a segment that is followed again, a bounded number of them;
    /// returns where to go on, or `None` when all were.
    pub fn snapshot(&mut self, segment: u32, from: u32) -> Option<u32> {
        if from == 0 {
            self.outbox.note_tombstones(&self.space, &self.tier.tombstones, segment);
        }
        let end = self.stored.replicas.bound().min(from.saturating_add(SNAPSHOT_STEP_REPLICAS));
        for id in from..end {
            let replica = self.stored.replicas.get(id).filter(|replica| replica.segment == segment);
            if replica.is_some_and(|replica| self.is_of_object(id, replica.object)) {
                self.note(id, RecordOp::Commit);
            }
        }
        (end < self.stored.replicas.bound()).then_some(end)
    }

    fn is_of_object(&self, id: u32, object: u32) -> bool {
        let first = self.stored.keys.get(object).map_or(NONE, |record| record.first);
        self.stored.replicas.chain(first).any(|complete| complete == id)
    }

    /// Notes that all replicas of a chain are complete.
    pub(super) fn note_commits(&mut self, first: u32) {
        let mut id = first;
        while id != NONE {
            self.note(id, RecordOp::Commit);
            id = self.stored.replicas[id].sibling;
        }
    }

    /// Notes the pins that an object has now.
    pub(super) fn note_flags(&mut self, object: u32) {
        let mut id = self.stored.keys[object].first;
        while id != NONE {
            self.note(id, RecordOp::Flags);
            id = self.stored.replicas[id].sibling;
        }
    }

    /// Sets or clears an object's soft pin.
    pub(super) fn set_soft_pin(&mut self, object: u32, end_ms: Option<u64>) {
        if self.stored.set_soft_pin(object, end_ms) {
            self.note_flags(object);
        }
    }

    /// Notes what becomes of a replica, which has an object, if an owner follows its segment.
    pub(super) fn note(&mut self, id: u32, op: RecordOp) {
        let Replica { segment, object, .. } = self.stored.replicas[id];
        if !self.outbox.is_followed(segment) || self.stored.keys.get(object).is_none() {
            return;
        }
        let share = self.space.get(segment);
        let replicas = match share.is_some_and(|share| share.spec.keeps_replica_counts) {
            true => Record::flags_of_replicas(self.wanted_replicas(object)),
            false => 0,
        };
        self.outbox.note_replica(&self.stored, id, op, replicas);
    }
}
