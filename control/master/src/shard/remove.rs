//! Removal by key and of single replicas.
//! Invariant: space under a running read lease is quarantined, even when the removal is forced.

use perigee_schemas::Status;

use crate::departures::DepartureCause;
use crate::key::hash_key;
use crate::object::{Flags, Object};

use super::KeyShard;
use super::put_end::code;

impl KeyShard {
    /// Removes keys; `force` ignores leases. One status per key.
    ///
    /// Status -704: unknown key; -706: a lease is running; -703: it is being written.
    pub fn remove(&mut self, now_ms: u64, keys: &[&[u8]], force: bool, out: &mut Vec<i32>) {
        self.begin(now_ms);
        out.clear();
        for key in keys {
            let removed = match self.stored.find(key) {
                None => {
                    // Owners that are away may still have it.
                    self.tier.tombstones.note_change(hash_key(key));
                    self.rebuild.note_change(hash_key(key));
                    Err(Status::ObjectNotFound)
                }
                Some(object) => self.remove_object(object, force, DepartureCause::Removed),
            };
            if matches!(removed, Ok(()) | Err(Status::ObjectNotFound)) {
                self.outbox.note_removal(&self.space, self.stored.replicas.generation_bound(), key);
            }
            out.push(code(removed));
        }
        debug_assert_eq!(out.len(), keys.len(), "one answer per key");
    }

    /// Drops the client's own replicas of keys on the segments of a name, or on all segments for an
    /// empty name. One status per key, 0 for cleared ones; leased, unfinished and foreign objects
    /// stay.
    pub fn replica_clear(
        &mut self,
        now_ms: u64,
        client: u128,
        keys: &[&[u8]],
        segment_name: &str,
        out: &mut Vec<i32>,
    ) {
        self.begin(now_ms);
        out.clear();
        for key in keys {
            out.push(code(self.clear_one(client, key, segment_name)));
        }
    }

    pub(super) fn remove_object(
        &mut self,
        object: u32,
        force: bool,
        cause: DepartureCause,
    ) -> Result<(), Status> {
        let complete = self.view().is_complete(object);
        let Object { flags, .. } = self.stored.keys[object];
        if flags.has(Flags::PENDING) && !(force && complete) {
            return Err(Status::ReplicaIsNotReady);
        }
        if !force
            && self.stored.groups.lease_end_ms(&self.stored.keys[object])
                > self.stored.clock.now_ms()
        {
            return Err(Status::ObjectHasLease);
        }
        if flags.has(Flags::PENDING) {
            self.discard_all_pending(object);
        }
        self.tier.tombstones.note_change(self.stored.keys[object].hash());
        self.rebuild.note_change(self.stored.keys[object].hash());
        if complete {
            self.note_departure(self.stored.keys[object].first, cause);
        }
        self.drop_all_complete(object);
        debug_assert!(self.stored.keys.get(object).is_none(), "nothing of it is left");
        if complete { Ok(()) } else { Err(Status::ObjectNotFound) }
    }

    fn clear_one(&mut self, client: u128, key: &[u8], segment_name: &str) -> Result<(), Status> {
        let object = self.stored.find(key).ok_or(Status::ObjectNotFound)?;
        let record = &self.stored.keys[object];
        if record.flags.has(Flags::PENDING) {
            return Err(Status::ReplicaIsNotReady);
        }
        if record.owner != client {
            return Err(Status::IllegalClient);
        }
        if self.stored.groups.lease_end_ms(record) > self.stored.clock.now_ms() {
            return Err(Status::ObjectHasLease);
        }
        let named = |id: &u32| {
            let share = self.space.get(self.stored.replicas[*id].segment);
            segment_name.is_empty() || share.is_some_and(|share| share.spec.name == segment_name)
        };
        let replicas: Vec<u32> = self.stored.replicas.chain(record.first).filter(named).collect();
        if replicas.is_empty() {
            return Err(Status::ReplicaNotFound);
        }
        self.tier.tombstones.note_change(record.hash());
        self.rebuild.note_change(record.hash());
        for id in replicas {
            // A part takes the others with it.
            if self.stored.replicas.get(id).is_some() {
                self.note_departure(id, DepartureCause::Cleared);
                self.drop_complete(id);
            }
        }
        if self.stored.keys.find(key).is_none() {
            self.outbox.note_removal(&self.space, self.stored.replicas.generation_bound(), key);
        }
        Ok(())
    }
}
