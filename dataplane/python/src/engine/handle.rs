//! `InnerTransferEngine`: a share of a running engine that can be handed to `setup(engine=...)`.
//! Invariant: the engine runs at least as long as the handle.

use super::session::{EngineSession, release};
use pyo3::prelude::*;
use std::sync::Arc;

/// The running engine behind a `TransferEngine`, for `MooncakeDistributedStore.setup(engine=...)`.
///
/// It has no methods. It keeps the engine running after the `TransferEngine` is gone.
#[pyclass(frozen, weakref, name = "InnerTransferEngine", module = "mooncake.engine")]
pub(crate) struct EngineHandle(Option<Arc<EngineSession>>);

impl EngineHandle {
    pub(super) fn new(session: Arc<EngineSession>) -> Self {
        Self(Some(session))
    }

    /// Another share of the engine.
    pub(crate) fn session(&self) -> Option<Arc<EngineSession>> {
        self.0.clone()
    }
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            release(session);
        }
    }
}
