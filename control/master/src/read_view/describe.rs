//! What readers and listings get of an object.
//! Invariant: only what can be read is named, and of an object in parts each part or none.

use perigee_schemas::Status;

use crate::columns::{ReplicaColumns, ReplicaState};
use crate::index::Slot;
use crate::key_event::Medium;
use crate::listed_key::ListedKey;
use crate::object::Flags;
use crate::slab::NONE;

use super::ReadView;

impl<'a> ReadView<'a> {
    pub(crate) fn describe(self, slot: Slot, out: &mut ReplicaColumns) {
        match slot.as_packed() {
            None => self.describe_object(slot.as_object().unwrap_or(NONE), out),
            Some(place) if self.is_packed_readable(place) => {
                let (copy, first_location) =
                    (self.stored.keys.packed().copy(place), out.locations.len());
                out.locations.push(copy.location());
                out.push_found(copy.checksum, copy.payload_bytes, first_location);
            }
            Some(_) => out.push_failure(Status::ObjectNotFound),
        }
    }

    pub(crate) fn describe_object(self, object: u32, out: &mut ReplicaColumns) {
        let first_location = out.locations.len();
        let first = self.stored.keys.get(object).map_or(NONE, |record| record.first);
        for id in self.stored.replicas.chain(first) {
            if self.is_readable(id) {
                out.locations.push(self.stored.replicas[id].location(ReplicaState::Complete));
            }
        }
        let is_found = match out.locations.get(first_location) {
            None => false,
            Some(found) if found.part.is_some() => self.describe_parts(object, first_location, out),
            Some(found) => {
                let payload_bytes = found.payload_bytes;
                out.push_found(self.stored.keys[object].checksum, payload_bytes, first_location);
                true
            }
        };
        if !is_found {
            out.push_failure(self.why_unreadable(object));
        }
    }

    /// Describes an object that lies in parts, of which locations from `first_location` on are the
    /// readable ones; false if some part has none.
    #[cold]
    pub(crate) fn describe_parts(
        self,
        object: u32,
        first_location: usize,
        out: &mut ReplicaColumns,
    ) -> bool {
        let Some(striped) = self.stored.striped.get(object).filter(|_| self.is_whole(object))
        else {
            out.locations.truncate(first_location);
            return false;
        };
        let found = &mut out.locations[first_location..];
        found.sort_by_key(|location| location.part);
        for location in found {
            debug_assert_eq!(location.state, ReplicaState::Complete);
            location.part_checksum = location.part.map_or(0, |part| striped.checksum_of(part));
        }
        out.push_found(
            self.stored.keys[object].checksum,
            striped.layout.payload_bytes,
            first_location,
        );
        true
    }

    pub(crate) fn why_unreadable(self, object: u32) -> Status {
        match self.stored.keys.get(object) {
            Some(record) if record.flags.has(Flags::PENDING) => Status::ReplicaIsNotReady,
            _ => Status::ObjectNotFound,
        }
    }

    pub(crate) fn listed(self, slot: Slot) -> ListedKey<'a> {
        match slot.as_packed() {
            Some(place) => ListedKey {
                key: self.stored.keys.packed().get(place).key(),
                payload_bytes: self.stored.keys.packed().copy(place).payload_bytes,
                group: None,
                media: [Medium::Disk].into_iter().collect(),
            },
            None => self.listed_object(slot.as_object().unwrap_or(NONE)),
        }
    }

    pub(crate) fn listed_object(self, object: u32) -> ListedKey<'a> {
        let record = &self.stored.keys[object];
        ListedKey {
            key: record.key(),
            payload_bytes: self.stored.bytes_of_object(object, record.first),
            group: self.stored.groups.name(record.group),
            media: self.stored.replicas.media(record.first),
        }
    }

    /// How many of the keys found lie on disks alone, and their bytes. What is in memory comes
    /// first in a chain.
    pub(crate) fn disk_hits(self, out: &ReplicaColumns) -> (u64, u64) {
        if self.space.disks().is_empty() {
            return (0, 0);
        }
        let (mut hits, mut bytes, mut at) = (0, 0, 0);
        for count in &out.location_count {
            let first = out.locations[at..].first().filter(|_| *count > 0);
            if let Some(first) = first.filter(|it| self.space.disks().contains(&it.segment)) {
                hits += 1;
                bytes += first.payload_bytes;
            }
            at += usize::from(*count);
        }
        (hits, bytes)
    }
}
