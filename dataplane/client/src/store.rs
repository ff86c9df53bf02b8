//! A client of a cluster. Invariant: memory is borrowed by a call until the call has returned, and
//! nothing of it moves after that.

use crate::background::PendingCall;
use crate::error::ObjectError;
use crate::home::Home;
use crate::memory::CacheMemory;
use crate::object::{ObjectSource, ObjectTarget};
use crate::registration::{MemoryRegistration, RegistrationHolder};
use crate::slice::MemorySlice;
use perigee_schemas::Status;
use perigee_store::api::WriteForm;
use perigee_store::{GetRequest, PutRequest, ReplicateConfig, Store, StoreConfig, StoreError};
use std::sync::Arc;

mod keys;

/// A client of a cluster: puts, gets and removes objects, and may lend memory for those of others.
/// Clones are the same client; all methods may be called from any thread.
#[derive(Clone, Debug)]
pub struct ObjectStore(Arc<Home<Store>>);

impl ObjectStore {
    /// Joins the cluster of a master. Environment variables are read as by every client; the book
    /// lists them.
    ///
    /// # Errors
    /// A setting cannot be used, the master does not answer, or memory cannot be allocated; the
    /// message says what to change.
    pub fn open(config: StoreConfig) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Home::new(Store::open(config)?))))
    }

    /// Puts an object. One that is there already is left as it is.
    ///
    /// # Errors
    /// No room, no answer, or a key or bytes that cannot be stored.
    pub fn put(
        &self,
        key: &str,
        bytes: &[u8],
        placement: &ReplicateConfig,
    ) -> Result<(), ObjectError> {
        self.write_one(ObjectSource::new(key).bytes(bytes), placement, false)
    }

    /// Puts several objects; the result of each.
    pub fn put_batch(
        &self,
        objects: &[ObjectSource<'_>],
        placement: &ReplicateConfig,
    ) -> Vec<Result<(), ObjectError>> {
        self.write(objects, placement, WriteForm::default())
    }

    /// Puts an object in place of the one that is there: readers see the old bytes or the new ones,
    /// never a mixture.
    ///
    /// # Errors
    /// As [`ObjectStore::put`].
    pub fn upsert(
        &self,
        key: &str,
        bytes: &[u8],
        placement: &ReplicateConfig,
    ) -> Result<(), ObjectError> {
        self.write_one(ObjectSource::new(key).bytes(bytes), placement, true)
    }

    /// Puts several objects in place of those that are there; the result of each.
    pub fn upsert_batch(
        &self,
        objects: &[ObjectSource<'_>],
        placement: &ReplicateConfig,
    ) -> Vec<Result<(), ObjectError>> {
        self.write(objects, placement, WriteForm { upsert: true, single: false })
    }

    fn write_one(
        &self,
        object: ObjectSource<'_>,
        placement: &ReplicateConfig,
        upsert: bool,
    ) -> Result<(), ObjectError> {
        let form = WriteForm { upsert, single: true };
        let written = self.write(std::slice::from_ref(&object), placement, form).pop();
        written.unwrap_or_else(|| Err(self.error(object.key, Status::InternalError)))
    }

    fn write(
        &self,
        objects: &[ObjectSource<'_>],
        placement: &ReplicateConfig,
        form: WriteForm,
    ) -> Vec<Result<(), ObjectError>> {
        let requests = objects.iter().map(|object| PutRequest {
            key: object.key,
            pieces: &object.pieces,
            group: object.group,
        });
        let requests: Vec<PutRequest<'_>> = requests.collect();
        let written = self.0.write(&requests, placement, form).into_iter().zip(objects);
        let verdict = |(status, object): (Status, &ObjectSource<'_>)| {
            status.ok().map_err(|status| self.error(object.key, status))
        };
        written.map(verdict).collect()
    }

    /// Reads an object into memory with room for at least its bytes; how many they are.
    ///
    /// # Errors
    /// As [`ObjectStore::get`], or the room is too small.
    pub fn get_into(&self, key: &str, bytes: &mut [u8]) -> Result<usize, ObjectError> {
        self.only(key, self.get_batch(&mut [ObjectTarget::new(key).bytes(bytes)]))
    }

    /// [`ObjectStore::get_into`] with a slice, of an accelerator too.
    ///
    /// # Errors
    /// As [`ObjectStore::get_into`].
    pub fn get_slice(&self, key: &str, slice: &mut MemorySlice) -> Result<usize, ObjectError> {
        self.only(key, self.get_batch(&mut [ObjectTarget::new(key).slice(slice)]))
    }

    /// Reads several objects; the bytes of each.
    pub fn get_batch(&self, objects: &mut [ObjectTarget<'_>]) -> Vec<Result<usize, ObjectError>> {
        let requests =
            objects.iter().map(|object| GetRequest { key: object.key, pieces: &object.pieces });
        let requests: Vec<GetRequest<'_>> = requests.collect();
        let read = self.0.get(&requests).into_iter().zip(&*objects);
        read.map(|(read, object)| {
            read.map_err(|status| self.error(object.key, status))
                .and_then(|bytes| count(object.key, bytes))
        })
        .collect()
    }

    /// Makes memory known to the RDMA devices, which read and write it in place then. Without RDMA
    /// it changes nothing.
    ///
    /// # Errors
    /// It overlaps memory that is registered, or is not memory of this process.
    pub fn register(&self, memory: &CacheMemory) -> Result<MemoryRegistration, ObjectError> {
        let status = self.0.register_buffer(memory.address() as usize, memory.len());
        status.ok().map_err(|status| self.error("memory", status))?;
        Ok(MemoryRegistration::new(memory, RegistrationHolder::Store(self.0.clone())))
    }

    /// Starts a call on a thread of its own, for async programs; see [`PendingCall`].
    pub fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> PendingCall<T> {
        let store = self.clone();
        PendingCall::start(move || work(&store))
    }

    /// The only answer of a call about one key.
    pub(crate) fn only<T>(
        &self,
        key: &str,
        mut answers: Vec<Result<T, ObjectError>>,
    ) -> Result<T, ObjectError> {
        answers.pop().unwrap_or_else(|| Err(self.error(key, Status::InternalError)))
    }

    pub(crate) fn raw(&self) -> &Store {
        &self.0
    }

    pub(crate) fn error(&self, what: &str, status: Status) -> ObjectError {
        match self.0.is_open() {
            true => ObjectError::of(what, status),
            false => ObjectError::closed(what, status),
        }
    }
}

/// Bytes of an object as a number of this machine.
pub(crate) fn count(key: &str, bytes: u64) -> Result<usize, ObjectError> {
    usize::try_from(bytes).map_err(|_| ObjectError::of(key, Status::BufferOverflow))
}
