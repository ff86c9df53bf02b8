//! From a key's hash to its object.
//! Invariant: an object is in the index exactly while it is in the slab.

use hashbrown::HashTable;

use crate::key::hash_key;
use crate::object::Object;
use crate::slab::Slab;

/// Separate tables, so that growing moves one of them at a time and no call waits for a million
/// entries.
const TABLES: usize = 64;

#[derive(Debug)]
pub(crate) struct KeyIndex {
    tables: Vec<HashTable<u32>>,
}

impl KeyIndex {
    pub(crate) fn new() -> Self {
        Self { tables: (0..TABLES).map(|_| HashTable::new()).collect() }
    }

    pub(crate) fn find(&self, objects: &Slab<Object>, hash: u64, key: &[u8]) -> Option<u32> {
        let same = |id: &u32| {
            let object = &objects[*id];
            object.hash() == hash && *object.key() == *key
        };
        self.tables[table_of(hash)].find(hash, same).copied()
    }

    /// An object that very likely has this hash, if any has; nothing but the table is read.
    pub(crate) fn guess(&self, hash: u64) -> Option<u32> {
        self.tables[table_of(hash)].find(hash, |_| true).copied()
    }

    pub(crate) fn insert(&mut self, objects: &Slab<Object>, id: u32) {
        let hash = objects[id].hash();
        debug_assert!(self.find(objects, hash, objects[id].key()).is_none());
        self.tables[table_of(hash)].insert_unique(hash, id, |id| objects[*id].hash());
    }

    pub(crate) fn remove(&mut self, hash: u64, id: u32) {
        let entry = self.tables[table_of(hash)].find_entry(hash, |other| *other == id);
        debug_assert!(entry.is_ok(), "object {id} is in the index");
        if let Ok(entry) = entry {
            entry.remove();
        }
    }

    /// Panics unless exactly the objects of the slab are found.
    pub(crate) fn check(&self, objects: &Slab<Object>) {
        let entries: usize = self.tables.iter().map(HashTable::len).sum();
        assert_eq!(entries, objects.len(), "one entry per object");
        for (id, object) in objects.iter() {
            assert_eq!(object.hash(), hash_key(object.key()), "hash of object {id}");
            let found = self.find(objects, object.hash(), object.key());
            assert_eq!(found, Some(id), "the index finds object {id}");
        }
    }
}

/// Bits 48..54: the shard uses those below, the tables' tags those above.
fn table_of(hash: u64) -> usize {
    (hash >> 48) as usize % TABLES
}
