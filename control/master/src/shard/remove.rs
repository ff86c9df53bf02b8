//! Removal by key, by pattern, of everything, and of single replicas; and listing.
//! Invariant: space under a running read lease is parked, even when the removal is forced.

use perigee_schemas::Status;
use regex::bytes::Regex;

use crate::limits::PATTERN_BYTES_MAX;
use crate::object::{Flags, Object};

use super::Shard;
use super::finish::code;
use super::space::Reuse;

impl Shard {
    /// Removes keys; `force` ignores leases. One status per key.
    ///
    /// Status -704: unknown key; -706: a lease is running; -703: it is being written.
    pub fn remove(&mut self, now_ms: u64, keys: &[&[u8]], force: bool, out: &mut Vec<i32>) {
        self.begin(now_ms);
        out.clear();
        for key in keys {
            let removed = match self.find(key) {
                None => Err(Status::ObjectNotFound),
                Some(object) => self.remove_object(object, force),
            };
            out.push(code(removed));
        }
    }

    /// Removes all keys in which the pattern is found; those that cannot be removed stay. Returns the count.
    /// Looks at every key of the shard in one call.
    ///
    /// # Errors
    /// `InvalidParams` for a pattern that is no regular expression.
    pub fn remove_by_regex(
        &mut self,
        now_ms: u64,
        pattern: &str,
        force: bool,
    ) -> Result<u64, Status> {
        self.begin(now_ms);
        let pattern = compile(pattern)?;
        Ok(self.remove_where(force, |key| pattern.is_match(key)))
    }

    /// Removes all keys that can be removed; returns the count.
    pub fn remove_all(&mut self, now_ms: u64, force: bool) -> u64 {
        self.begin(now_ms);
        self.remove_where(force, |_| true)
    }

    /// Drops the client's own replicas of keys on the segments of a name, or on all segments for an empty name.
    /// One status per key, 0 for cleared ones; leased, unfinished and foreign objects stay.
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

    /// Calls `each` with up to `limit` readable keys from the cursor on; returns the cursor of the next page,
    /// or `None` at the end. Start with 0. Keys that come or go between pages may be missed or not.
    pub fn list_keys(&self, cursor: u32, limit: usize, mut each: impl FnMut(&[u8])) -> Option<u32> {
        let mut listed = 0;
        for id in cursor..self.objects.bound() {
            if listed == limit {
                return Some(id);
            }
            if self.objects.get(id).is_some() && self.is_complete(id) {
                each(&self.objects[id].key);
                listed += 1;
            }
        }
        None
    }

    /// Calls `each` with up to `limit` readable keys in which the pattern is found.
    ///
    /// # Errors
    /// `InvalidParams` for a pattern that is no regular expression.
    pub fn list_by_regex(
        &self,
        pattern: &str,
        limit: usize,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Status> {
        let pattern = compile(pattern)?;
        let ids = (0..self.objects.bound()).filter(|id| {
            let key = self.objects.get(*id).map(|record| &record.key);
            key.is_some_and(|key| pattern.is_match(key)) && self.is_complete(*id)
        });
        for id in ids.take(limit) {
            each(&self.objects[id].key);
        }
        Ok(())
    }

    fn remove_where(&mut self, force: bool, wanted: impl Fn(&[u8]) -> bool) -> u64 {
        let mut removed = 0;
        for id in 0..self.objects.bound() {
            if self
                .objects
                .get(id)
                .is_some_and(|record| wanted(&record.key))
            {
                removed += u64::from(self.remove_object(id, force).is_ok());
            }
        }
        removed
    }

    fn remove_object(&mut self, object: u32, force: bool) -> Result<(), Status> {
        let complete = self.is_complete(object);
        let Object { flags, .. } = self.objects[object];
        if flags.has(Flags::PENDING) && !(force && complete) {
            return Err(Status::ReplicaIsNotReady);
        }
        if !force && self.objects[object].lease_end_ms() > self.now_ms {
            return Err(Status::ObjectHasLease);
        }
        if flags.has(Flags::PENDING) {
            self.discard_pending(object);
        }
        self.drop_all_complete(object);
        if complete {
            Ok(())
        } else {
            Err(Status::ObjectNotFound)
        }
    }

    fn clear_one(&mut self, client: u128, key: &[u8], segment_name: &str) -> Result<(), Status> {
        let object = self.find(key).ok_or(Status::ObjectNotFound)?;
        let record = &self.objects[object];
        if record.flags.has(Flags::PENDING) {
            return Err(Status::ReplicaIsNotReady);
        }
        if record.owner != client {
            return Err(Status::IllegalClient);
        }
        if record.lease_end_ms() > self.now_ms {
            return Err(Status::ObjectHasLease);
        }
        let named = |id: &u32| {
            let share = self.share(self.replicas[*id].segment);
            segment_name.is_empty() || share.is_some_and(|share| share.spec.name == segment_name)
        };
        let replicas: Vec<u32> = self.chain(record.first).filter(named).collect();
        if replicas.is_empty() {
            return Err(Status::ReplicaNotFound);
        }
        for id in replicas {
            self.drop_complete(id, Reuse::AfterReads);
        }
        Ok(())
    }
}

fn compile(pattern: &str) -> Result<Regex, Status> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(Status::InvalidParams);
    }
    Regex::new(pattern).map_err(|_| Status::InvalidParams)
}
