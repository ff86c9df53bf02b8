//! Lookups: existence, replicas, size.
//! Invariant: within a batch keys are touched last to first, so a prompt's root is newer than its
//! leaves.

use perigee_schemas::Status;

use crate::columns::ReplicaColumns;
use crate::index::Slot;
use crate::touch::Touch;

use super::KeyShard;

impl KeyShard {
    /// Whether each key has a readable replica: 1 or 0, one entry of `out` per key; 0 also for what
    /// cannot be a key. Grants the probe lease.
    pub fn exist(&mut self, now_ms: u64, keys: &[&[u8]], out: &mut Vec<i32>) {
        self.begin(now_ms);
        out.clear();
        let found = self.stored.keys.locate(keys, &self.stored.replicas);
        let exists = |slot: &Slot| i32::from(self.view().is_slot_complete(*slot));
        out.extend(found.iter().map(exists));
        debug_assert_eq!(out.len(), keys.len(), "one answer per key");
        self.counters.total_checks += out.len() as u64;
        self.counters.valid_checks += out.iter().filter(|status| **status == 1).count() as u64;
        self.continued.note_missing(&found, self.stored.keys.located());
        for (slot, _) in found.iter().zip(&*out).rev().filter(|(_, status)| **status == 1) {
            self.order.probe(&mut self.stored, *slot);
        }
        self.relocating().promote_probed(keys, out);
        self.stored.keys.reuse(found);
    }

    /// The readable replicas of each key, with the read lease granted.
    ///
    /// Status -704: unknown key; -703: nothing complete yet.
    pub fn get_replicas(&mut self, now_ms: u64, keys: &[&[u8]], out: &mut ReplicaColumns) {
        self.locate_and_touch(now_ms, keys, Touch::Read, out);
    }

    /// As `get_replicas`, with the probe lease of `exist` alone: a caller that only asks where keys
    /// lie keeps no put from their space.
    pub fn probe_replicas(&mut self, now_ms: u64, keys: &[&[u8]], out: &mut ReplicaColumns) {
        self.locate_and_touch(now_ms, keys, Touch::Probe, out);
    }

    fn locate_and_touch(
        &mut self,
        now_ms: u64,
        keys: &[&[u8]],
        touch: Touch,
        out: &mut ReplicaColumns,
    ) {
        self.begin(now_ms);
        out.clear();
        let mut found = self.stored.keys.locate(keys, &self.stored.replicas);
        if touch == Touch::Read {
            self.unpack_found(keys, &mut found);
        }
        for slot in &found {
            self.view().describe(*slot, out);
        }
        for (at, slot) in found.iter().enumerate().rev() {
            if out.status[at] != Status::Ok.code() {
                continue;
            }
            match slot.as_object().filter(|_| touch == Touch::Read) {
                Some(object) => out.lease[at] = self.read(object),
                None => self.order.probe(&mut self.stored, *slot),
            }
        }
        self.stored.keys.reuse(found);
        debug_assert!(out.are_whole(keys.len()), "one entry per key");
        let on_disk = self.view().disk_hits(out);
        self.counters.count_gets(out, on_disk);
    }

    /// Packed records that are read become objects, which have leases.
    fn unpack_found(&mut self, keys: &[&[u8]], found: &mut [Slot]) {
        for (at, slot) in found.iter_mut().enumerate() {
            if slot.as_packed().is_none() {
                continue;
            }
            // The same key may come twice.
            let there = self.stored.keys.find_hashed(self.stored.keys.located()[at], keys[at]);
            let there = there.filter(|there| self.view().is_slot_complete(*there));
            let object = there.and_then(|there| self.stored.object_of(there));
            *slot = object.map_or(Slot::NONE, Slot::object);
        }
    }

    /// A reader was given what is kept of a key; returns the name of its lease.
    fn read(&mut self, object: u32) -> u64 {
        let lease = self.order.touch(&mut self.stored, object, Touch::Read);
        self.relocating().promote_hit(object);
        if self.heat.is_some() {
            self.wishing().count_read(object);
        }
        lease
    }

    /// As `get_replicas`, without a lease and without counting: for operators, not for readers.
    pub fn peek(&self, keys: &[&[u8]], out: &mut ReplicaColumns) {
        out.clear();
        for key in keys {
            self.view().describe(self.stored.keys.find(key).unwrap_or(Slot::NONE), out);
        }
    }

    /// Payload length in bytes of a key that can be read; no lease.
    ///
    /// # Errors
    /// `ObjectNotFound` or `ReplicaIsNotReady`.
    pub fn size(&self, key: &[u8]) -> Result<u64, Status> {
        let slot = self.stored.keys.find(key).ok_or(Status::ObjectNotFound)?;
        if let Some(place) = slot.as_packed() {
            let is_there = self.view().is_packed_readable(place);
            let payload_bytes = self.stored.keys.packed().copy(place).payload_bytes;
            return is_there.then_some(payload_bytes).ok_or(Status::ObjectNotFound);
        }
        let object = slot.as_object().ok_or(Status::ObjectNotFound)?;
        let mut replicas = self.stored.replicas.chain(self.stored.keys[object].first);
        let is_there = |id: &u32| self.view().is_readable(*id);
        match replicas.find(is_there).filter(|_| self.view().is_complete(object)) {
            Some(id) => Ok(self.stored.bytes_of_object(object, id)),
            None => Err(self.view().why_unreadable(object)),
        }
    }
}
