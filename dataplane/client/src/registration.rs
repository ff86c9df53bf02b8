//! Memory that is registered. Invariant: it stays mapped until the store or engine has let go of
//! it.

use crate::home::Home;
use crate::memory::CacheMemory;
use perigee_engine::{EngineError, TransferEngine};
use perigee_schemas::Status;
use perigee_store::Store;
use std::sync::Arc;

/// Memory that a store or an engine knows. Dropping it ends the registration; that waits for
/// transfers that use the memory, at most 40 s. Once the store or engine is closed, the memory
/// stays until the last clone of that is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the registration"]
pub struct MemoryRegistration {
    memory: CacheMemory,
    holder: RegistrationHolder,
}

#[derive(Debug)]
pub(crate) enum RegistrationHolder {
    Store(Arc<Home<Store>>),
    Engine(Arc<Home<TransferEngine>>),
}

impl MemoryRegistration {
    pub(crate) fn new(memory: &CacheMemory, holder: RegistrationHolder) -> Self {
        Self { memory: memory.clone(), holder }
    }

    /// The registered memory, which the caller may read and write.
    #[must_use]
    pub fn memory(&self) -> &CacheMemory {
        &self.memory
    }
}

impl Drop for MemoryRegistration {
    fn drop(&mut self) {
        match &self.holder {
            // One that is being closed refuses, and its devices may still have the memory.
            RegistrationHolder::Store(store) => {
                if store.unregister_buffer(self.memory.address() as usize) != Status::Ok {
                    store.keep(self.memory.clone());
                }
            }
            RegistrationHolder::Engine(engine) => {
                if let Err(error) = engine.unregister(self.memory.address()) {
                    if error != EngineError::Closed {
                        tracing::warn!(%error, "The memory is kept until the engine ends");
                    }
                    engine.keep(self.memory.clone());
                }
            }
        }
    }
}
