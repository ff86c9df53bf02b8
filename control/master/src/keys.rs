//! The objects of a shard and how they are found by their keys.
//! Invariant: an object is found by its key exactly while it is here; its key never changes.

use std::hint::black_box;

use crate::index::KeyIndex;
use crate::key::hash_key;
use crate::object::Object;
use crate::replicas::Replicas;
use crate::slab::{NONE, Slab};

#[derive(Debug)]
pub(crate) struct Keys {
    objects: Slab<Object>,
    index: KeyIndex,
    /// Most objects there were since [`Keys::take_peak`].
    peak: usize,
    /// Hashes of the batch that was looked up last, kept for its memory.
    hashes: Vec<u64>,
    /// An answer that was handed back, kept for its memory.
    spare: Vec<u32>,
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self {
            objects: Slab::new(),
            index: KeyIndex::new(),
            peak: 0,
            hashes: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// The object of a key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        self.find_hashed(hash_key(key), key)
    }

    /// As `find`, for a key whose hash is known.
    pub(crate) fn find_hashed(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.index.find(&self.objects, hash, key)
    }

    /// The objects of a batch of keys, or `NONE`; loads what touching them needs. The answer goes
    /// back to [`Keys::reuse`].
    ///
    /// Each step runs over the whole batch before the next one, so that the cache misses of
    /// different keys overlap instead of adding up; with a million keys this halves the time of a
    /// batch.
    pub(crate) fn locate(&mut self, keys: &[&[u8]], replicas: &Replicas) -> Vec<u32> {
        let mut found = std::mem::take(&mut self.spare);
        self.hashes.clear();
        self.hashes.extend(keys.iter().map(|key| hash_key(key)));
        found.clear();
        found.extend(self.hashes.iter().map(|hash| self.index.guess(*hash).unwrap_or(NONE)));
        self.load_objects(&found, replicas);
        for (at, key) in keys.iter().enumerate() {
            let hash = self.hashes[at];
            let right = |record: &Object| record.hash() == hash && *record.key() == **key;
            if found[at] != NONE && !self.objects.get(found[at]).is_some_and(right) {
                found[at] = self.find_hashed(hash, key).unwrap_or(NONE);
            }
        }
        self.load_neighbours(&found, replicas);
        debug_assert_eq!(found.len(), keys.len(), "one object per key");
        found
    }

    /// Hashes of the keys that [`Keys::locate`] looked for last.
    pub(crate) fn located(&self) -> &[u64] {
        &self.hashes
    }

    /// Takes an answer of [`Keys::locate`] back for its memory.
    pub(crate) fn reuse(&mut self, found: Vec<u32>) {
        self.spare = found;
    }

    /// Reads a field of each object and of its first replica, and the first byte of its key.
    fn load_objects(&self, found: &[u32], replicas: &Replicas) {
        let mut seen = 0;
        for object in found.iter().filter_map(|id| self.objects.get(*id)) {
            seen ^= object.first;
        }
        for object in found.iter().filter_map(|id| self.objects.get(*id)) {
            seen ^= u32::from(object.key().first().copied().unwrap_or_default());
            seen ^= replicas.get(object.first).map_or(NONE, |replica| replica.segment);
        }
        black_box(seen);
    }

    /// Reads the list neighbours of each object's first replica.
    fn load_neighbours(&self, found: &[u32], replicas: &Replicas) {
        let mut seen = 0;
        for object in found.iter().filter_map(|id| self.objects.get(*id)) {
            seen ^= replicas.load_neighbours(object.first);
        }
        black_box(seen);
    }

    /// A new object, without anything to read; the key has none yet.
    pub(crate) fn insert(&mut self, key: &[u8], hash: u64) -> u32 {
        debug_assert_eq!(hash, hash_key(key), "the hash is the key's");
        let object = self.objects.insert(Object::new(key, hash));
        self.index.insert(&self.objects, object);
        self.peak = self.peak.max(self.objects.len());
        object
    }

    /// Forgets an object and its key.
    pub(crate) fn remove(&mut self, id: u32) {
        let removed = self.objects.remove(id);
        debug_assert!(removed.is_some(), "object {id} is here");
        if let Some(object) = removed {
            self.index.remove(object.hash(), id);
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Object> {
        self.objects.get(id)
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Most objects there were since this was asked last.
    pub(crate) fn take_peak(&mut self) -> usize {
        std::mem::replace(&mut self.peak, self.objects.len())
    }

    /// One past the highest number of an object there ever was, for scans.
    pub(crate) fn bound(&self) -> u32 {
        self.objects.bound()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Object)> + Clone {
        self.objects.iter()
    }

    /// Panics unless exactly the objects that are here are found by their keys.
    pub(crate) fn check(&self) {
        self.objects.check();
        self.index.check(&self.objects);
        assert!(self.peak >= self.objects.len());
    }
}

impl std::ops::Index<u32> for Keys {
    type Output = Object;

    fn index(&self, id: u32) -> &Object {
        &self.objects[id]
    }
}

impl std::ops::IndexMut<u32> for Keys {
    fn index_mut(&mut self, id: u32) -> &mut Object {
        &mut self.objects[id]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generations::Generations;
    use crate::settings::ShardSettings;

    fn key(n: u32) -> Vec<u8> {
        format!("key {n}").into_bytes()
    }

    fn with(count: u32) -> Keys {
        let mut keys = Keys::new();
        for n in 0..count {
            keys.insert(&key(n), hash_key(&key(n)));
        }
        keys.check();
        keys
    }

    #[test]
    fn an_object_is_found_by_its_key_until_it_is_removed() {
        let mut keys = with(1_000);
        let object = keys.find(&key(17)).unwrap();
        assert_eq!(keys[object].key(), key(17));
        keys.remove(object);
        keys.check();
        assert_eq!((keys.find(&key(17)), keys.len()), (None, 999));
        assert_eq!(keys.insert(b"other", hash_key(b"other")), object, "numbers are reused");
        assert_eq!((keys.find(&key(17)), keys.find(b"other")), (None, Some(object)));
    }

    #[test]
    fn a_batch_finds_what_single_keys_find() {
        let mut keys = with(100);
        let asked: Vec<Vec<u8>> = (0..200).rev().map(key).collect();
        let asked: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
        let replicas = Replicas::new(Generations::new(&ShardSettings::default()));
        for _ in 0..2 {
            let found = keys.locate(&asked, &replicas);
            let one_by_one = asked.iter().map(|key| keys.find(key).unwrap_or(NONE));
            assert!(one_by_one.eq(found.iter().copied()));
            keys.reuse(found);
        }
    }

    #[test]
    fn the_peak_is_the_most_since_it_was_asked_last() {
        let mut keys = with(10);
        for n in 0..5 {
            keys.remove(keys.find(&key(n)).unwrap());
        }
        assert_eq!((keys.take_peak(), keys.take_peak()), (10, 5));
    }
}
