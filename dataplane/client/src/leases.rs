//! Objects that stay readable. Invariant: the leases are given back when this is dropped.

use crate::error::ObjectError;
use crate::object::ObjectTarget;
use crate::store::{ObjectStore, count};
use perigee_store::{CallerRange, Lookup};

/// Objects under a read lease: they are not removed or evicted while it runs, which is a few
/// seconds ([`ObjectStore::lease`]).
#[derive(Debug)]
pub struct ObjectLeases {
    store: ObjectStore,
    keys: Vec<String>,
    lookup: Lookup,
}

impl ObjectLeases {
    pub(crate) fn new(store: ObjectStore, keys: &[&str]) -> Self {
        let lookup = store.raw().locate(keys);
        Self { store, keys: keys.iter().map(|key| (*key).to_owned()).collect(), lookup }
    }

    /// Number of keys that were asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key was asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes of an object.
    ///
    /// # Errors
    /// It is not there, or the master did not answer.
    pub fn size(&self, index: usize) -> Result<usize, ObjectError> {
        let key = self.keys.get(index).map_or("", String::as_str);
        let bytes = self.lookup.object(index);
        bytes.map_err(|status| self.store.error(key, status)).and_then(|bytes| count(key, bytes))
    }

    /// Reads objects by their numbers, with no other question to the master; the bytes of each. The
    /// keys of the targets are not used.
    pub fn read(
        &self,
        targets: &mut [(usize, ObjectTarget<'_>)],
    ) -> Vec<Result<usize, ObjectError>> {
        let pieces = |(index, target): &(usize, ObjectTarget<'_>)| (*index, target.pieces.clone());
        let pieces: Vec<(usize, Vec<CallerRange>)> = targets.iter().map(pieces).collect();
        let asked: Vec<(usize, &[CallerRange])> =
            pieces.iter().map(|(index, pieces)| (*index, pieces.as_slice())).collect();
        let read = self.store.raw().read(&self.lookup, &asked).into_iter().zip(&asked);
        read.map(|(read, (index, _))| {
            let key = self.keys.get(*index).map_or("", String::as_str);
            read.map_err(|status| self.store.error(key, status)).and_then(|bytes| count(key, bytes))
        })
        .collect()
    }
}

impl ObjectStore {
    /// Reads an object into memory of its size.
    ///
    /// # Errors
    /// It is not there, or its bytes did not arrive.
    pub fn get(&self, key: &str) -> Result<Vec<u8>, ObjectError> {
        let leases = self.lease(&[key]);
        let mut bytes = vec![0; leases.size(0)?];
        let target = ObjectTarget::new(key).bytes(&mut bytes);
        self.only(key, leases.read(&mut [(0, target)]))?;
        Ok(bytes)
    }

    /// Looks objects up and takes a read lease on each: they are not removed or evicted while it
    /// runs (`--default_kv_lease_ttl` of the master, 5 s if not set).
    #[must_use]
    pub fn lease(&self, keys: &[&str]) -> ObjectLeases {
        ObjectLeases::new(self.clone(), keys)
    }
}
