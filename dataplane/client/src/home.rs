//! An engine and what must outlive it. Invariant: memory that the engine would not let go of stays
//! until the engine has ended.

use crate::memory::CacheMemory;
use perigee_engine::TransferEngine;
use std::sync::{Mutex, PoisonError};

/// The engine, and memory that it would not let go of.
// Fields drop in this order: the engine has ended before the memory goes.
#[derive(Debug)]
pub(crate) struct EngineHome {
    engine: TransferEngine,
    kept: Mutex<Vec<CacheMemory>>,
}

impl EngineHome {
    pub(crate) fn new(engine: TransferEngine) -> Self {
        Self { engine, kept: Mutex::default() }
    }

    pub(crate) fn engine(&self) -> &TransferEngine {
        &self.engine
    }

    pub(crate) fn keep(&self, memory: CacheMemory) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }
}
