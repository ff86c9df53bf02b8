//! Objects that lie on a disk and nowhere else are kept as packed records, which are a third as
//! long, while nothing is under way with them.
//! Invariant: a packed record is of a readable object without a group, pins, running leases of
//! readers, puts, moves or demotions; every call that names its key, but one that only looks,
//! unpacks it, so that all else need not know of them.

use crate::demotion_task::AnnouncedCopy;
use crate::limits::{PACK_AGAIN_MS, PACK_REFUSED_MS};
use crate::object::Flags;
use crate::packed::DiskCopy;
use crate::policy::ObjectKind;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
    /// Number of keys that are kept as packed records.
    pub fn packed_keys(&self) -> usize {
        self.stored.keys.packed().len()
    }

    /// Bytes of the packed records with their keys, and of the holes between them.
    pub fn packed_bytes(&self) -> usize {
        self.stored.keys.packed().used_bytes()
    }

    /// Packs what lies on disks alone, and closes holes between records; leaves at least half of
    /// the budget to what comes next, and returns what is left.
    pub(super) fn pack_due(&mut self, mut budget: usize) -> usize {
        let least = budget / 2;
        while budget > least
            && let Some(object) = self.stored.packing.take_due(self.stored.clock.now_ms())
        {
            budget -= 1;
            if self.stored.is_to_be_packed(object) {
                self.pack_or_wait(object);
            }
        }
        while budget > least
            && let Some(records) = self.stored.keys.clean_packed()
        {
            budget = budget.saturating_sub(records);
        }
        budget
    }

    fn pack_or_wait(&mut self, object: u32) {
        let wait_ms = match self.is_at_rest(object) {
            true if self.stored.pack(object) => return,
            true => PACK_REFUSED_MS,
            false => PACK_AGAIN_MS,
        };
        let record = &self.stored.keys[object];
        let lease_end_ms = record.read_end_ms.max(record.probe_end_ms);
        self.stored
            .packing
            .note(object, lease_end_ms.max(self.stored.clock.now_ms().saturating_add(wait_ms)));
    }

    /// Whether nothing is kept of an object but what a packed record has.
    fn is_at_rest(&self, object: u32) -> bool {
        let record = &self.stored.keys[object];
        let replica = &self.stored.replicas[record.first];
        let is_plain = replica.sibling == NONE && replica.part().is_none();
        let has_leases = record.read_end_ms.max(record.probe_end_ms) > self.stored.clock.now_ms();
        is_plain
            && !has_leases
            && !record.flags.has(!Flags::HIT)
            && self.relocation.of(object).is_none()
            && self.wishes.cause(object).is_none()
            && self.stored.striped.get(object).is_none()
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
            stamp: self.stored.clock.touch(),
            is_probed: false,
            kind: ObjectKind::at(0),
            is_hit: false,
            term: 0,
        };
        if self.stored.keys.insert_packed(copy.key, hash, &kept).is_none() {
            return false;
        }
        self.quotas.count_object(copy.key);
        self.space.count_copy(disk, copy.payload_bytes as i64);
        self.reports.packed(copy.key, copy.payload_bytes);
        true
    }

    /// Forgets packed records in segments of a disk's log that have been used again; returns what
    /// is left of the budget.
    pub(super) fn forget_packed(&mut self, disk: u32, mut budget: usize) -> usize {
        let oldest = self.space.get(disk).map_or(0, |share| share.oldest_sequence);
        while budget > 0 {
            let recycled = self.stored.keys.packed_before(disk, oldest, budget);
            if recycled.is_empty() {
                break;
            }
            budget -= recycled.len();
            for place in recycled {
                let object = self.stored.unpack(place);
                self.forget_recycled_copy(self.stored.keys[object].first);
            }
        }
        budget
    }

    /// Forgets packed records of a disk that is gone, at most `budget`; returns how many.
    pub(super) fn lose_packed(&mut self, disk: u32, budget: usize) -> usize {
        let lost = self.stored.keys.packed().some_of(disk, budget);
        for place in &lost {
            let object = self.stored.unpack(*place);
            self.lose_replica(self.stored.keys[object].first);
        }
        lost.len()
    }
}
