//! Objects that lie on a disk and nowhere else become packed records, which are a third as long,
//! and objects again.
//! Invariant: every call that names a key, but one that only looks, unpacks its record, so that all
//! else need not know of them.

use crate::index::Slot;
use crate::key::hash_key;
use crate::list_name::ListName;
use crate::object::Flags;
use crate::packed::DiskCopy;
use crate::slab::NONE;
use crate::tenant::TenantLane;

use super::StoredObjects;

impl StoredObjects {
    /// The object of a key.
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<u32> {
        self.find_hashed(hash_key(key), key)
    }

    /// As `find`, for a key whose hash is known.
    pub(crate) fn find_hashed(&mut self, hash: u64, key: &[u8]) -> Option<u32> {
        let slot = self.keys.find_hashed(hash, key)?;
        self.object_of(slot)
    }

    /// The object of an entry of the index, unpacked if it is not yet.
    pub(crate) fn object_of(&mut self, slot: Slot) -> Option<u32> {
        match slot.as_packed() {
            Some(place) => Some(self.unpack(place)),
            None => slot.as_object(),
        }
    }

    /// Makes an object of a packed record.
    pub(crate) fn unpack(&mut self, place: u32) -> u32 {
        let (object, copy) = self.keys.unpack(place);
        let probe_end_ms = self.probe_end_ms(&copy);
        let lane = TenantLane::shared(copy.disk);
        let id = self.replicas.adopt(lane, copy.address, copy.payload_bytes, copy.generation);
        self.replicas.relink(id, ListName::OnDisk);
        self.replicas.note_late(id);
        self.replicas.assign(id, object);
        let record = &mut self.keys[object];
        record.first = id;
        record.owner = copy.writer;
        record.checksum = copy.checksum;
        record.stamp = copy.stamp;
        record.probe_end_ms = probe_end_ms;
        record.term = copy.term;
        record.set_kind(copy.kind);
        record.flags.set(Flags::HIT, copy.is_hit);
        self.packing.note(object, self.clock.now_ms());
        object
    }

    /// When the lease of a probe ends that has touched a packed record last; 0 if it has ended.
    fn probe_end_ms(&self, copy: &DiskCopy) -> u64 {
        let idle_ms = self.clock.idle_ms(copy.stamp);
        let left_ms = self.lease_ttl_ms.saturating_sub(idle_ms);
        match copy.is_probed && left_ms > 0 {
            true => self.clock.now_ms().saturating_add(left_ms),
            false => 0,
        }
    }

    /// A probe of a packed record grants the probe lease, which is as long as the object would have
    /// it, or up to a mark of the clock longer.
    pub(crate) fn probe_packed(&mut self, place: u32) {
        let stamp = self.clock.touch();
        self.keys.touch_packed(place, stamp);
    }

    /// An object has other complete replicas than before: if that is a copy on a disk alone, it is
    /// packed soon.
    pub(crate) fn note_disk_only(&mut self, object: u32) {
        if self.is_to_be_packed(object) && !self.packing.has(object) {
            self.packing.note(object, self.clock.now_ms());
        }
    }

    /// Whether an object lies on a disk alone, and not in a group, which is kept with its members.
    pub(crate) fn is_to_be_packed(&self, object: u32) -> bool {
        let Some(record) = self.keys.get(object).filter(|record| record.group == NONE) else {
            return false;
        };
        self.replicas.get(record.first).is_some_and(|replica| replica.is_on_disk())
    }

    /// Packs an object with which nothing is under way; false if that fits into no record.
    pub(crate) fn pack(&mut self, object: u32) -> bool {
        let record = &self.keys[object];
        let id = record.first;
        let replica = &self.replicas[id];
        // As with the next lease: what is given back late ends no other reader's.
        let term = record.term.wrapping_add(u8::from(record.readers() > 0));
        let copy = DiskCopy {
            disk: replica.segment,
            address: replica.offset,
            generation: replica.generation,
            payload_bytes: replica.payload_bytes,
            checksum: record.checksum,
            writer: record.owner,
            stamp: record.stamp,
            is_probed: false,
            kind: record.kind(),
            is_hit: record.flags.has(Flags::HIT),
            term,
        };
        if !self.keys.pack(object, &copy) {
            return false;
        }
        self.replicas.unlink(id);
        self.replicas.remove(id);
        true
    }
}
