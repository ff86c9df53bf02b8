//! Looking up all keys of a batch.
//! Invariant: each step runs over the whole batch before the next one, so that the cache misses of
//! different keys overlap instead of adding up; with a million keys this halves the time of a
//! batch.

use std::hint::black_box;

use crate::key::hash_key;
use crate::object::Object;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
    /// Puts the object of each key into `found`, or `NONE`, and loads what touching it will need.
    pub(super) fn locate(&mut self, keys: &[&[u8]]) {
        self.hashes.clear();
        self.hashes.extend(keys.iter().map(|key| hash_key(key)));
        let guesses = self.hashes.iter().map(|hash| self.index.guess(*hash).unwrap_or(NONE));
        self.found.clear();
        self.found.extend(guesses);
        self.load_objects();
        for (at, key) in keys.iter().enumerate() {
            let (hash, guess) = (self.hashes[at], self.found[at]);
            let right = |record: &Object| record.hash == hash && *record.key == **key;
            if guess != NONE && !self.objects.get(guess).is_some_and(right) {
                self.found[at] = self.index.find(&self.objects, hash, key).unwrap_or(NONE);
            }
        }
        self.load_neighbours();
        debug_assert_eq!(self.found.len(), keys.len(), "one object per key");
    }

    /// Reads a field of each object and of its first replica, and the first byte of its key.
    fn load_objects(&self) {
        let mut seen = 0;
        for object in self.found.iter().filter_map(|id| self.objects.get(*id)) {
            seen ^= object.first;
        }
        for object in self.found.iter().filter_map(|id| self.objects.get(*id)) {
            seen ^= u32::from(object.key.first().copied().unwrap_or_default());
            seen ^= self.replicas.get(object.first).map_or(NONE, |replica| replica.segment);
        }
        black_box(seen);
    }

    /// Reads the list neighbours of each object's first replica.
    fn load_neighbours(&self) {
        let mut seen = 0;
        for object in self.found.iter().filter_map(|id| self.objects.get(*id)) {
            if let Some(replica) = self.replicas.get(object.first) {
                seen ^= self.replicas.get(replica.newer).map_or(NONE, |newer| newer.object);
                seen ^= self.replicas.get(replica.older).map_or(NONE, |older| older.object);
            }
        }
        black_box(seen);
    }
}
