//! The objects of a shard, the packed records of those that lie on a disk alone, and how they are
//! found by their keys.
//! Invariant: a key has an object or a packed record, or neither; it is found exactly while it has;
//! it never changes.

use std::hint::black_box;

use crate::index::{KeyIndex, Slot, place_of};
use crate::key::hash_key;
use crate::object::Object;
use crate::packed::{DiskCopy, PackedObjects};
use crate::replicas::Replicas;
use crate::slab::{NONE, Slab};

#[derive(Debug)]
pub(crate) struct Keys {
    objects: Slab<Object>,
    packed: PackedObjects,
    index: KeyIndex,
    /// Most keys there were since [`Keys::take_peak`].
    peak: usize,
    /// Hashes of the batch that was looked up last, kept for its memory.
    hashes: Vec<u64>,
    /// An answer that was handed back, kept for its memory.
    spare: Vec<Slot>,
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self {
            objects: Slab::new(),
            packed: PackedObjects::new(),
            index: KeyIndex::new(),
            peak: 0,
            hashes: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// What is kept of a key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Slot> {
        self.find_hashed(hash_key(key), key)
    }

    /// As `find`, for a key whose hash is known.
    pub(crate) fn find_hashed(&self, hash: u64, key: &[u8]) -> Option<Slot> {
        self.index.find(hash, |slot| self.is_of(slot, hash, key))
    }

    fn is_of(&self, slot: Slot, hash: u64, key: &[u8]) -> bool {
        match (slot.as_object(), slot.as_packed()) {
            (Some(id), _) => {
                self.objects.get(id).is_some_and(|it| it.hash() == hash && *it.key() == *key)
            }
            (None, Some(place)) => *self.packed.get(place).key() == *key,
            (None, None) => false,
        }
    }

    /// What is kept of each of a batch of keys; loads what touching it needs. The answer goes back
    /// to [`Keys::reuse`].
    ///
    /// Each step runs over the whole batch before the next one, so that the cache misses of
    /// different keys overlap instead of adding up; with a million keys this halves the time of a
    /// batch.
    pub(crate) fn locate(&mut self, keys: &[&[u8]], replicas: &Replicas) -> Vec<Slot> {
        let mut found = std::mem::take(&mut self.spare);
        self.guess_all(keys, &mut found);
        self.load_objects(&found, replicas);
        for (at, key) in keys.iter().enumerate() {
            let hash = self.hashes[at];
            if found[at] != Slot::NONE && !self.is_of(found[at], hash, key) {
                found[at] = self.find_hashed(hash, key).unwrap_or(Slot::NONE);
            }
        }
        self.load_neighbours(&found, replicas);
        debug_assert_eq!(found.len(), keys.len(), "one answer per key");
        found
    }

    /// Loads what looking for each of a batch of keys reads: so cache misses overlap, as in
    /// [`Keys::locate`].
    pub(crate) fn load(&mut self, keys: &[&[u8]], replicas: &Replicas) {
        let mut found = std::mem::take(&mut self.spare);
        self.guess_all(keys, &mut found);
        self.load_objects(&found, replicas);
        self.reuse(found);
    }

    /// What very likely is kept of each key, if anything is.
    fn guess_all(&mut self, keys: &[&[u8]], found: &mut Vec<Slot>) {
        self.hashes.clear();
        self.hashes.extend(keys.iter().map(|key| hash_key(key)));
        found.clear();
        found.extend(self.hashes.iter().map(|hash| self.index.guess(*hash).unwrap_or(Slot::NONE)));
    }

    /// Hashes of the keys that [`Keys::locate`] looked for last.
    pub(crate) fn located(&self) -> &[u64] {
        &self.hashes
    }

    /// Takes an answer of [`Keys::locate`] back for its memory.
    pub(crate) fn reuse(&mut self, found: Vec<Slot>) {
        self.spare = found;
    }

    /// Reads a field of each object and of its first replica, and the first byte of each key.
    fn load_objects(&self, found: &[Slot], replicas: &Replicas) {
        let mut seen = 0;
        let objects = || found.iter().filter_map(|slot| self.objects.get(slot.as_object()?));
        for object in objects() {
            seen ^= object.first;
        }
        for object in objects() {
            seen ^= u32::from(object.key().first().copied().unwrap_or_default());
            seen ^= replicas.get(object.first).map_or(NONE, |replica| replica.segment);
        }
        if self.packed.len() > 0 {
            for place in found.iter().filter_map(|slot| slot.as_packed()) {
                let key = self.packed.get(place).key();
                seen ^= u32::from(key.first().copied().unwrap_or_default());
            }
        }
        black_box(seen);
    }

    /// Reads the list neighbours of each object's first replica.
    fn load_neighbours(&self, found: &[Slot], replicas: &Replicas) {
        let mut seen = 0;
        for object in found.iter().filter_map(|slot| self.objects.get(slot.as_object()?)) {
            seen ^= replicas.load_neighbours(object.first);
        }
        black_box(seen);
    }

    /// A new object, without anything to read; the key has none yet.
    pub(crate) fn insert(&mut self, key: &[u8], hash: u64) -> u32 {
        debug_assert_eq!(hash, hash_key(key), "the hash is the key's");
        debug_assert!(self.find_hashed(hash, key).is_none());
        let object = self.objects.insert(Object::new(key, hash));
        self.take_up(hash, Slot::object(object));
        object
    }

    /// A packed record of a key that has nothing yet; `None` if it cannot be packed.
    pub(crate) fn insert_packed(&mut self, key: &[u8], hash: u64, copy: &DiskCopy) -> Option<u32> {
        debug_assert!(self.find_hashed(hash, key).is_none());
        let place = self.packed.add(key, copy)?;
        self.take_up(hash, Slot::packed(place));
        Some(place)
    }

    fn take_up(&mut self, hash: u64, slot: Slot) {
        let (objects, packed) = (&self.objects, &self.packed);
        self.index.insert(hash, slot, |slot| hash_of(objects, packed, slot));
        self.peak = self.peak.max(self.index.len());
    }

    /// Forgets an object and its key.
    pub(crate) fn remove(&mut self, id: u32) {
        let removed = self.objects.remove(id);
        debug_assert!(removed.is_some(), "object {id} is here");
        if let Some(object) = removed {
            self.index.remove(object.hash(), Slot::object(id));
        }
    }

    /// Puts a packed record in the place of an object, which is forgotten. False if it cannot be
    /// packed: then all stays as it is.
    pub(crate) fn pack(&mut self, id: u32, copy: &DiskCopy) -> bool {
        let object = &self.objects[id];
        let Some(place) = self.packed.add(object.key(), copy) else {
            return false;
        };
        self.index.replace(object.hash(), Slot::object(id), Slot::packed(place));
        self.objects.remove(id);
        true
    }

    /// Puts an object, without anything to read, in the place of a packed record, which is
    /// forgotten.
    pub(crate) fn unpack(&mut self, place: u32) -> (u32, DiskCopy) {
        let copy = self.packed.copy(place);
        let key = self.packed.get(place).key();
        let hash = hash_key(key);
        let object = self.objects.insert(Object::new(key, hash));
        self.index.replace(hash, Slot::packed(place), Slot::object(object));
        self.packed.remove(place);
        (object, copy)
    }

    /// The packed records.
    pub(crate) fn packed(&self) -> &PackedObjects {
        &self.packed
    }

    /// The object of a packed record was probed.
    pub(crate) fn touch_packed(&mut self, place: u32, stamp: u64) {
        self.packed.touch(place, stamp);
    }

    /// As [`PackedObjects::before`].
    pub(crate) fn packed_before(&mut self, disk: u32, sequence: u32, limit: usize) -> Vec<u32> {
        self.packed.before(disk, sequence, limit)
    }

    /// Cleans a chunk of packed records if there are many holes; returns how many records it had.
    pub(crate) fn clean_packed(&mut self) -> Option<usize> {
        let index = &mut self.index;
        self.packed.clean(|key, before, after| {
            index.replace(hash_key(key), Slot::packed(before), Slot::packed(after));
        })
    }

    /// What stands in the part of a walk that a place lies in, from that place on and in the order
    /// of walks, and the last place of that part.
    pub(crate) fn around(&self, place: u64) -> (Vec<(u64, Slot)>, u64) {
        let (entries, last) = self.index.around(place);
        let placed = entries.map(|it| (place_of(hash_of(&self.objects, &self.packed, it)), it));
        let mut ahead: Vec<(u64, Slot)> = placed.filter(|(at, _)| *at >= place).collect();
        ahead.sort_unstable_by_key(|(at, _)| *at);
        (ahead, last)
    }

    /// Key of an entry of the index.
    pub(crate) fn key(&self, slot: Slot) -> Option<&[u8]> {
        match (slot.as_object(), slot.as_packed()) {
            (Some(id), _) => self.objects.get(id).map(Object::key),
            (None, Some(place)) => Some(self.packed.get(place).key()),
            (None, None) => None,
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Object> {
        self.objects.get(id)
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Most keys there were since this was asked last.
    pub(crate) fn take_peak(&mut self) -> usize {
        std::mem::replace(&mut self.peak, self.index.len())
    }

    /// All objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Object)> + Clone {
        self.objects.iter()
    }

    /// Panics unless exactly the objects and records that are here are found by their keys.
    pub(crate) fn check(&self) {
        self.objects.check();
        self.packed.check();
        self.index.check(|slot| hash_of(&self.objects, &self.packed, slot));
        assert_eq!(self.len(), self.objects.len() + self.packed.len(), "one entry per key");
        for (id, object) in self.objects.iter() {
            assert_eq!(object.hash(), hash_key(object.key()), "hash of object {id}");
            assert_eq!(self.find(object.key()), Some(Slot::object(id)), "object {id} is found");
        }
        for (place, record) in self.packed.iter() {
            assert_eq!(self.find(record.key()), Some(Slot::packed(place)), "{place} is found");
        }
        assert!(self.peak >= self.len());
    }
}

/// Hash of the key of an entry.
fn hash_of(objects: &Slab<Object>, packed: &PackedObjects, slot: Slot) -> u64 {
    match (slot.as_object(), slot.as_packed()) {
        (Some(id), _) => objects[id].hash(),
        (None, Some(place)) => hash_key(packed.get(place).key()),
        (None, None) => 0,
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
    use crate::policy::ObjectKind;
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
        let object = keys.find(&key(17)).and_then(Slot::as_object).unwrap();
        assert_eq!(keys[object].key(), key(17));
        keys.remove(object);
        keys.check();
        assert_eq!((keys.find(&key(17)), keys.len()), (None, 999));
        assert_eq!(keys.insert(b"other", hash_key(b"other")), object, "numbers are reused");
        let found = (keys.find(&key(17)), keys.find(b"other"));
        assert_eq!(found, (None, Some(Slot::object(object))));
    }

    #[test]
    fn a_batch_finds_what_single_keys_find() {
        let mut keys = with(100);
        let asked: Vec<Vec<u8>> = (0..200).rev().map(key).collect();
        let asked: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
        let replicas = Replicas::new(Generations::new(&ShardSettings::default()));
        for _ in 0..2 {
            let found = keys.locate(&asked, &replicas);
            let one_by_one = asked.iter().map(|key| keys.find(key).unwrap_or(Slot::NONE));
            assert!(one_by_one.eq(found.iter().copied()));
            keys.reuse(found);
        }
    }

    #[test]
    fn what_is_packed_is_found_until_it_is_unpacked_wherever_it_moves() {
        let mut keys = with(0);
        let copy = |number: u32| DiskCopy {
            disk: number % 2,
            address: u64::from(number),
            generation: u64::from(number) + 1,
            payload_bytes: 1,
            checksum: number,
            writer: 1,
            stamp: 0,
            is_probed: false,
            kind: ObjectKind::at(0),
            is_hit: false,
            term: 0,
        };
        for n in 0..5_000 {
            keys.insert_packed(&key(n), hash_key(&key(n)), &copy(n)).unwrap();
        }
        for n in (0..5_000).filter(|n| n % 3 > 0) {
            let place = keys.find(&key(n)).and_then(Slot::as_packed).unwrap();
            let (object, unpacked) = keys.unpack(place);
            assert_eq!((unpacked, keys[object].key()), (copy(n), &key(n)[..]));
            match n % 3 {
                1 => keys.remove(object),
                _ => assert!(keys.pack(object, &unpacked)),
            }
        }
        let mut moved = 0;
        while let Some(records) = keys.clean_packed() {
            moved += records;
        }
        assert!(moved > 0);
        keys.check();
        for n in 0..5_000 {
            let place = keys.find(&key(n)).and_then(Slot::as_packed);
            let found = place.map(|place| keys.packed().copy(place));
            assert_eq!(found, (n % 3 != 1).then(|| copy(n)));
        }
    }

    #[test]
    fn the_peak_is_the_most_since_it_was_asked_last() {
        let mut keys = with(10);
        for n in 0..5 {
            keys.remove(keys.find(&key(n)).and_then(Slot::as_object).unwrap());
        }
        assert_eq!((keys.take_peak(), keys.take_peak()), (10, 5));
    }
}
