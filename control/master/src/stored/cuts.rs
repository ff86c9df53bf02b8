//! Objects that are larger than any segment: what their parts hold.
//! Invariant: the replicas of an object are either all whole, or each of a part.

use perigee_schemas::record::RecordPart;

use crate::replica::Replica;
use crate::slab::NONE;
use crate::striped::StripedObject;

use super::StoredObjects;

impl StoredObjects {
    /// Whether an object's complete replicas are of parts.
    pub(crate) fn is_striped(&self, object: u32) -> bool {
        let first = self.keys.get(object).map_or(NONE, |record| record.first);
        self.replicas.get(first).is_some_and(|replica| replica.part().is_some())
    }

    /// Whether a complete replica is the only one of a part: the object goes with it.
    pub(crate) fn is_only_part(&self, id: u32) -> bool {
        let replica = &self.replicas[id];
        let Some(part) = replica.part() else {
            return false;
        };
        let is_twin = |other: u32| other != id && self.replicas[other].part() == Some(part);
        !self.replicas.chain(self.keys[replica.object].first).any(is_twin)
    }

    /// Whether an object, of which this is the first complete replica, was never readable: its
    /// owners have not announced all its parts.
    pub(crate) fn was_never_whole(&self, object: u32, first: u32) -> bool {
        let striped = self.striped.get(object).filter(|_| self.replicas[first].part().is_some());
        striped.is_some_and(|striped| {
            !self.replicas.are_all_parts(self.replicas.chain(first), striped.layout.parts())
        })
    }

    /// Length in bytes of what can be read of an object, of which a replica is one.
    pub(crate) fn bytes_of_object(&self, object: u32, replica: u32) -> u64 {
        let Replica { payload_bytes, .. } = self.replicas[replica];
        match self.replicas[replica].part() {
            None => payload_bytes,
            Some(_) => self.striped.get(object).map_or(0, |it| it.layout.payload_bytes),
        }
    }

    /// CRC-32C of what a complete replica holds.
    pub(crate) fn checksum_of_replica(&self, id: u32) -> u32 {
        let replica = &self.replicas[id];
        match replica.part() {
            None => self.keys[replica.object].checksum,
            Some(part) => self.striped.get(replica.object).map_or(0, |it| it.checksum_of(part)),
        }
    }

    /// A part of an object was announced, the first one that is known or another one.
    pub(crate) fn note_part(
        &mut self,
        object: u32,
        is_first: bool,
        part: &RecordPart,
        checksum: u32,
    ) {
        if is_first {
            self.striped.set(object, Some(StripedObject::unknown(part.layout)));
        }
        if let Some(striped) = self.striped.get_mut(object) {
            striped.note(part.number, checksum);
        }
    }
}
