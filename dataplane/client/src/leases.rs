//! Objects that stay readable. Invariant: the leases are given back when this is dropped.

use crate::error::ObjectError;
use crate::object::ObjectTarget;
use crate::store::{ObjectStore, count};
use perigee_schemas::Status;
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
        let key = self.key(index);
        let bytes = self.lookup.object(index);
        bytes.map_err(|status| self.store.error(key, status)).and_then(|bytes| count(key, bytes))
    }

    /// Reads an object by its number, into memory of its size.
    ///
    /// # Errors
    /// It is not there, its bytes did not arrive, or this host has no memory for them.
    pub fn get(&self, index: usize) -> Result<Vec<u8>, ObjectError> {
        match self.get_once(index, self.size(index)?) {
            // The memory is too small for the object that is there since the lookup.
            Err(error) if error.status() == Status::InvalidParams => {
                let now = self.store.lease(&[self.key(index)]);
                now.get_once(0, now.size(0)?)
            }
            read => read,
        }
    }

    fn get_once(&self, index: usize, size: usize) -> Result<Vec<u8>, ObjectError> {
        let key = self.key(index);
        let mut bytes = room(key, size)?;
        let target = ObjectTarget::new(key).bytes(&mut bytes);
        let read = self.store.only(key, self.read(&mut [(index, target)]))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads objects by their numbers; the bytes of each. The keys of the targets are not used. The
    /// master is asked again about an object whose lease has ended and whose place holds other
    /// bytes now: the count is that of the object that was read, which may be another than
    /// [`ObjectLeases::size`] says.
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
            let key = self.key(*index);
            read.map_err(|status| self.store.error(key, status)).and_then(|bytes| count(key, bytes))
        })
        .collect()
    }

    fn key(&self, index: usize) -> &str {
        self.keys.get(index).map_or("", String::as_str)
    }
}

/// Memory for an object. Its size comes from the master, so it may be more than there is.
fn room(key: &str, size: usize) -> Result<Vec<u8>, ObjectError> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|_| ObjectError::of(key, Status::BufferOverflow))?;
    bytes.resize(size, 0);
    Ok(bytes)
}

impl ObjectStore {
    /// Reads an object into memory of its size.
    ///
    /// # Errors
    /// It is not there, its bytes did not arrive, or this host has no memory for them.
    pub fn get(&self, key: &str) -> Result<Vec<u8>, ObjectError> {
        self.lease(&[key]).get(0)
    }

    /// Looks objects up and takes a read lease on each: they are not removed or evicted while it
    /// runs (`--default_kv_lease_ttl` of the master, 5 s if not set).
    #[must_use]
    pub fn lease(&self, keys: &[&str]) -> ObjectLeases {
        ObjectLeases::new(self.clone(), keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ObjectFault;

    #[test]
    fn a_size_for_which_there_is_no_memory_is_an_error() {
        for size in [usize::MAX, isize::MAX as usize] {
            let error = room("page", size).unwrap_err();
            assert_eq!((error.what(), error.fault()), ("page", ObjectFault::Argument));
        }
        assert_eq!(room("page", 3).unwrap(), [0; 3]);
    }
}
