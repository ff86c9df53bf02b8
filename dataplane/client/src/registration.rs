//! Memory that is registered. Invariant: it stays mapped until the store or engine has let go of
//! it.

use crate::engine_home::EngineHome;
use crate::memory::CacheMemory;
use perigee_engine::EngineError;
use perigee_store::Store;
use std::sync::Arc;

/// Memory that a store or an engine knows. Dropping it ends the registration; that waits for
/// transfers that use the memory, at most 40 s.
#[derive(Debug)]
#[must_use = "dropping it ends the registration"]
pub struct MemoryRegistration {
    memory: CacheMemory,
    holder: RegistrationHolder,
}

#[derive(Debug)]
pub(crate) enum RegistrationHolder {
    Store(Arc<Store>),
    Engine(Arc<EngineHome>),
}

impl MemoryRegistration {
    pub(crate) fn new(memory: &CacheMemory, holder: RegistrationHolder) -> Self {
        Self { memory: memory.clone(), holder }
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &CacheMemory {
        &self.memory
    }
}

impl Drop for MemoryRegistration {
    fn drop(&mut self) {
        match &self.holder {
            // A closed store has let go of all memory.
            RegistrationHolder::Store(store) => {
                store.unregister_buffer(self.memory.address() as usize);
            }
            RegistrationHolder::Engine(home) => {
                match home.engine().unregister(self.memory.address()) {
                    Ok(()) | Err(EngineError::Closed) => {}
                    Err(error) => {
                        tracing::warn!(%error, "The memory is kept until the engine ends");
                        home.keep(self.memory.clone());
                    }
                }
            }
        }
    }
}
