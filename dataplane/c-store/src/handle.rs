//! What a `mooncake_store_t` stands for: a store, once it is set up.
//! Invariant: a handle is set up once.

use crate::answer::CallFailure;
use perigee_c::{Handle, Handles};
use perigee_schemas::Status;
use perigee_store::{Store, StoreConfig};
use std::sync::{Mutex, OnceLock, PoisonError};

/// All stores of this process.
pub(crate) static STORES: Handles<NativeStore> = Handles::new("store", 0x7d00_0000_0010);

/// A store as C has it.
#[derive(Default)]
pub(crate) struct NativeStore {
    open: OnceLock<Store>,
    opening: Mutex<()>,
}

impl NativeStore {
    /// Joins a cluster.
    pub(crate) fn open(&self, config: StoreConfig) -> Result<(), CallFailure> {
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.open.get().is_some() {
            return Err(Status::UnavailableInCurrentStatus.into());
        }
        let store = Store::open(config)?;
        // Only a thread that holds the lock comes here.
        let _ = self.open.set(store);
        Ok(())
    }

    /// The store, if it is set up.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.open.get()
    }
}

/// Runs `work` with the store of a handle, which must be set up.
pub(crate) fn with<R>(
    handle: Handle,
    work: impl FnOnce(&Store) -> Result<R, CallFailure>,
) -> Result<R, CallFailure> {
    STORES.with(handle, |native| match native.store() {
        Some(store) => work(store),
        None => Err(Status::InvalidParams.into()),
    })?
}
