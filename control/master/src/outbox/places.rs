//! What owners hear of single places of their segments and disks.
//! Invariant: nothing is said of what is in no object.

use perigee_schemas::Identity;
use perigee_schemas::limits::STORED_KEY_BYTES_MAX;
use perigee_schemas::record::{Record, RecordOp};

use crate::limits::SNAPSHOT_TOMBSTONES_MAX;
use crate::object::Flags;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::tombstone::Tombstones;

use super::Outbox;

impl Outbox {
    /// Notes what becomes of a replica in a segment that is followed; `replicas` are the flags that
    /// say how many its object is to have.
    pub(crate) fn note_replica(
        &mut self,
        stored: &StoredObjects,
        id: u32,
        op: RecordOp,
        replicas: u8,
    ) {
        let replica = &stored.replicas[id];
        let Some(object) = stored.keys.get(replica.object) else {
            return;
        };
        let group = stored.groups.name(object.group).filter(|it| it.len() <= STORED_KEY_BYTES_MAX);
        // Of what is gone only the place counts.
        let part = replica
            .part()
            .filter(|_| op != RecordOp::Free)
            .and_then(|part| stored.striped.record_part(replica.object, part, object.checksum));
        let flag = |flag: u8, wire: u8| if object.flags.has(flag) { wire } else { 0 };
        let record = Record {
            op,
            flags: flag(Flags::HARD_PIN, Record::HARD_PIN)
                | flag(Flags::SOFT_PIN, Record::SOFT_PIN)
                | replicas,
            checksum: match part {
                None => object.checksum,
                Some(_) => stored.checksum_of_replica(id),
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
        self.note(replica.segment, &record);
    }

    /// Notes that a copy on a disk is void: its owner hears of it where it follows memory of its
    /// own, so that it does not announce the copy to the next life of the master.
    pub(crate) fn note_void(&mut self, space: &Space, disk: u32, generation: u64) {
        let Some(client) = space.get(disk).map(|share| share.spec.client) else {
            return;
        };
        let mut segments = space.iter();
        let followed = segments.find(|(segment, share)| {
            share.is_memory() && share.spec.client == client && self.is_followed(*segment)
        });
        if let Some((segment, _)) = followed {
            self.note(segment, &void(generation));
        }
    }

    /// Notes the void copies that the owner of a segment has not confirmed, as far as that is
    /// bounded.
    pub(crate) fn note_tombstones(&mut self, space: &Space, tombstones: &Tombstones, segment: u32) {
        let Some(client) = space.get(segment).map(|share| share.spec.client) else {
            return;
        };
        for disk in space.disks().to_vec() {
            let is_own = space.get(disk).is_some_and(|share| share.spec.client == client);
            let waiting = tombstones.oldest(disk, SNAPSHOT_TOMBSTONES_MAX);
            for tombstone in waiting.filter(|_| is_own).unwrap_or_default() {
                self.note(segment, &void(tombstone.generation));
            }
        }
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
