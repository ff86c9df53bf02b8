//! Objects that lie on a disk and nowhere else are kept as packed records, which are a third as
//! long, while nothing is under way with them.
//! Invariant: a packed record is of a readable object without a group, pins, running leases of
//! readers, puts, moves or demotions; every call that names its key, but one that only looks,
//! unpacks it, so that all else need not know of them.

use crate::columns::{ReplicaLocation, ReplicaState};
use crate::index::Slot;
use crate::key::hash_key;
use crate::limits::{PACK_AGAIN_MS, PACK_REFUSED_MS};
use crate::list_name::ListName;
use crate::object::Flags;
use crate::packed::DiskCopy;
use crate::policy::ObjectKind;
use crate::slab::NONE;
use crate::tenant::TenantLane;

use super::KeyShard;
use super::demotion_task::AnnouncedCopy;

impl KeyShard {
    /// Number of keys that are kept as packed records.
    pub fn packed_keys(&self) -> usize {
        self.keys.packed().len()
    }

    /// Bytes of the packed records with their keys, and of the holes between them.
    pub fn packed_bytes(&self) -> usize {
        self.keys.packed().used_bytes()
    }

    /// The object of a key.
    pub(super) fn find(&mut self, key: &[u8]) -> Option<u32> {
        self.find_hashed(hash_key(key), key)
    }

    /// As `find`, for a key whose hash is known.
    pub(super) fn find_hashed(&mut self, hash: u64, key: &[u8]) -> Option<u32> {
        let slot = self.keys.find_hashed(hash, key)?;
        self.object_of(slot)
    }

    /// The object of an entry of the index, unpacked if it is not yet.
    pub(super) fn object_of(&mut self, slot: Slot) -> Option<u32> {
        match slot.as_packed() {
            Some(place) => Some(self.unpack(place)),
            None => slot.as_object(),
        }
    }

    /// Whether what is kept of a key can be read.
    pub(super) fn is_slot_complete(&self, slot: Slot) -> bool {
        match (slot.as_object(), slot.as_packed()) {
            (Some(object), _) => self.is_complete(object),
            (None, Some(place)) => self.is_packed_readable(place),
            (None, None) => false,
        }
    }

    pub(super) fn is_packed_readable(&self, place: u32) -> bool {
        let packed = self.keys.packed();
        self.space.has_address(packed.disk(place), packed.get(place).address())
    }

    /// A probe of a packed record grants the probe lease, which is as long as the object would have
    /// it, or up to a mark of the clock longer.
    pub(super) fn probe_packed(&mut self, place: u32) {
        let stamp = self.clock.touch();
        self.keys.touch_packed(place, stamp);
    }

    /// Where the bytes of a packed record lie.
    pub(super) fn packed_location(&self, copy: &DiskCopy) -> ReplicaLocation {
        ReplicaLocation {
            segment: copy.disk,
            state: ReplicaState::Complete,
            offset: copy.address,
            payload_bytes: copy.payload_bytes,
            generation: copy.generation,
            part: None,
            part_checksum: 0,
        }
    }

    /// Makes an object of a packed record.
    pub(super) fn unpack(&mut self, place: u32) -> u32 {
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
        self.packing.note(object, self.now_ms);
        object
    }

    /// When the lease of a probe ends that has touched a packed record last; 0 if it has ended.
    fn probe_end_ms(&self, copy: &DiskCopy) -> u64 {
        let idle_ms = self.clock.idle_ms(copy.stamp, self.now_ms);
        let left_ms = self.settings.lease_ttl_ms.saturating_sub(idle_ms);
        match copy.is_probed && left_ms > 0 {
            true => self.now_ms.saturating_add(left_ms),
            false => 0,
        }
    }

    /// An object has other complete replicas than before: if that is a copy on a disk alone, it is
    /// packed soon.
    pub(super) fn note_disk_only(&mut self, object: u32) {
        if self.is_to_be_packed(object) && !self.packing.has(object) {
            self.packing.note(object, self.now_ms);
        }
    }

    /// Packs what lies on disks alone, and closes holes between records; leaves at least half of
    /// the budget to what comes next, and returns what is left.
    pub(super) fn pack_due(&mut self, mut budget: usize) -> usize {
        let least = budget / 2;
        while budget > least
            && let Some(object) = self.packing.take_due(self.now_ms)
        {
            budget -= 1;
            if self.is_to_be_packed(object) {
                self.pack_or_wait(object);
            }
        }
        while budget > least
            && let Some(records) = self.keys.clean_packed()
        {
            budget = budget.saturating_sub(records);
        }
        budget
    }

    /// Whether an object lies on a disk alone, and not in a group, which is kept with its members.
    fn is_to_be_packed(&self, object: u32) -> bool {
        let Some(record) = self.keys.get(object).filter(|record| record.group == NONE) else {
            return false;
        };
        self.replicas.get(record.first).is_some_and(|replica| replica.is_on_disk())
    }

    fn pack_or_wait(&mut self, object: u32) {
        let wait_ms = match self.is_at_rest(object) {
            true if self.pack(object) => return,
            true => PACK_REFUSED_MS,
            false => PACK_AGAIN_MS,
        };
        let record = &self.keys[object];
        let lease_end_ms = record.read_end_ms.max(record.probe_end_ms);
        self.packing.note(object, lease_end_ms.max(self.now_ms.saturating_add(wait_ms)));
    }

    /// Packs an object with which nothing is under way; false if that fits into no record.
    fn pack(&mut self, object: u32) -> bool {
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

    /// Whether nothing is kept of an object but what a packed record has.
    fn is_at_rest(&self, object: u32) -> bool {
        let record = &self.keys[object];
        let replica = &self.replicas[record.first];
        let is_plain = replica.sibling == NONE && replica.part().is_none();
        let has_leases = record.read_end_ms.max(record.probe_end_ms) > self.now_ms;
        is_plain
            && !has_leases
            && !record.flags.has(!Flags::HIT)
            && self.relocation.of(object).is_none()
            && self.wishes.cause(object).is_none()
            && self.striped.get(object).is_none()
            && self.pending.overtaken(object).next().is_none()
            && self.rebuild.announced(object).is_none()
            && self.rebuild.wanted(object) == 0
    }

    /// Takes over what the owner of a disk says of a key that nothing is known of, without making
    /// an object of it; false if it cannot be packed.
    pub(super) fn learn_packed(&mut self, hash: u64, disk: u32, copy: &AnnouncedCopy<'_>) -> bool {
        if !copy.group.is_empty() {
            return false;
        }
        let kept = DiskCopy {
            disk,
            address: copy.address,
            generation: copy.generation,
            payload_bytes: copy.payload_bytes,
            checksum: copy.checksum,
            writer: copy.writer,
            stamp: self.clock.touch(),
            is_probed: false,
            kind: ObjectKind::at(0),
            is_hit: false,
            term: 0,
        };
        if self.keys.insert_packed(copy.key, hash, &kept).is_none() {
            return false;
        }
        self.count_object(copy.key);
        self.space.count_copy(disk, copy.payload_bytes as i64);
        self.report_packed(copy.key, copy.payload_bytes);
        true
    }

    /// Forgets packed records in segments of a disk's log that have been used again; returns what
    /// is left of the budget.
    pub(super) fn forget_packed(&mut self, disk: u32, mut budget: usize) -> usize {
        let oldest = self.space.get(disk).map_or(0, |share| share.oldest_sequence);
        while budget > 0 {
            let recycled = self.keys.packed_before(disk, oldest, budget);
            if recycled.is_empty() {
                break;
            }
            budget -= recycled.len();
            for place in recycled {
                let object = self.unpack(place);
                self.forget_recycled_copy(self.keys[object].first);
            }
        }
        budget
    }

    /// Forgets packed records of a disk that is gone, at most `budget`; returns how many.
    pub(super) fn lose_packed(&mut self, disk: u32, budget: usize) -> usize {
        let lost = self.keys.packed().some_of(disk, budget);
        for place in &lost {
            let object = self.unpack(*place);
            self.lose_replica(self.keys[object].first);
        }
        lost.len()
    }

    /// Copies on a disk, or replicas in a segment.
    pub(super) fn replicas_in(&self, segment: u32) -> usize {
        self.replicas.count_in(segment) + self.keys.packed().count_in(segment)
    }

    /// Panics unless what lies on a disk alone is packed or waits for it, and all of it lies on
    /// disks.
    pub(super) fn check_packed(&self) {
        self.packing.check();
        for (object, _) in self.keys.iter().filter(|(object, _)| self.is_to_be_packed(*object)) {
            assert!(self.packing.has(object), "{object} waits to be packed");
        }
        for (place, _) in self.keys.packed().iter() {
            let disk = self.keys.packed().disk(place);
            assert!(self.space.get(disk).is_some_and(|share| share.is_disk()), "{disk} is a disk");
        }
    }
}
