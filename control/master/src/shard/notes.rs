//! What owners hear of their segments: each replica that is complete from now on, changes its
//! pins, or is gone.
//! Invariant: a replica is noted as gone in the step that frees its space, before any other step
//! can hand that out.

use perigee_schemas::Identity;
use perigee_schemas::limits::STORED_KEY_BYTES_MAX;
use perigee_schemas::record::{Record, RecordOp};

use crate::limits::{SNAPSHOT_STEP_REPLICAS, SNAPSHOT_TOMBSTONES_MAX};
use crate::object::Flags;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
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
            self.note_tombstones(segment);
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

    /// Notes that a copy on a disk is void: its owner hears of it where it follows memory of its
    /// own, so that it does not announce the copy to the next life of the master.
    pub(super) fn note_void(&mut self, disk: u32, generation: u64) {
        let Some(client) = self.space.get(disk).map(|share| share.spec.client) else {
            return;
        };
        let mut segments = self.space.iter();
        let followed = segments.find(|(segment, share)| {
            share.is_memory() && share.spec.client == client && self.outbox.is_followed(*segment)
        });
        if let Some((segment, _)) = followed {
            self.outbox.note(segment, &void(generation));
        }
    }

    /// Notes the void copies that the owner of a segment has not confirmed, as far as that is
    /// bounded.
    fn note_tombstones(&mut self, segment: u32) {
        let Some(client) = self.space.get(segment).map(|share| share.spec.client) else {
            return;
        };
        for disk in self.space.disks().to_vec() {
            let is_own = self.space.get(disk).is_some_and(|share| share.spec.client == client);
            let waiting = self.tier.tombstones.oldest(disk, SNAPSHOT_TOMBSTONES_MAX);
            for tombstone in waiting.filter(|_| is_own).unwrap_or_default() {
                self.outbox.note(segment, &void(tombstone.generation));
            }
        }
    }

    /// Notes what becomes of a replica, which has an object.
    pub(super) fn note(&mut self, id: u32, op: RecordOp) {
        let replica = &self.stored.replicas[id];
        if !self.outbox.is_followed(replica.segment) {
            return;
        }
        let Some(object) = self.stored.keys.get(replica.object) else {
            return;
        };
        let group =
            self.stored.groups.name(object.group).filter(|it| it.len() <= STORED_KEY_BYTES_MAX);
        // Of what is gone only the place counts.
        let part = replica.part().filter(|_| op != RecordOp::Free).and_then(|part| {
            self.stored.striped.record_part(replica.object, part, object.checksum)
        });
        let flag = |flag: u8, wire: u8| if object.flags.has(flag) { wire } else { 0 };
        let share = self.space.get(replica.segment);
        let replicas = match share.is_some_and(|share| share.spec.keeps_replica_counts) {
            true => Record::flags_of_replicas(self.wanted_replicas(replica.object)),
            false => 0,
        };
        let record = Record {
            op,
            flags: flag(Flags::HARD_PIN, Record::HARD_PIN)
                | flag(Flags::SOFT_PIN, Record::SOFT_PIN)
                | replicas,
            checksum: match part {
                None => object.checksum,
                Some(_) => self.stored.checksum_of_replica(id),
            },
            sequence: 0,
            generation: replica.generation,
            offset: replica.offset,
            payload_bytes: replica.payload_bytes,
            client: Identity(object.owner),
            key: object.key(),
            group: group.unwrap_or_default().as_bytes(),
            part,
        };
        self.outbox.note(replica.segment, &record);
    }
}

/// The record of a void copy: only its generation counts.
fn void(generation: u64) -> Record<'static> {
    Record {
        op: RecordOp::Void,
        flags: 0,
        checksum: 0,
        sequence: 0,
        generation,
        offset: 0,
        payload_bytes: 1,
        client: Identity(0),
        key: b"-",
        group: b"",
        part: None,
    }
}
