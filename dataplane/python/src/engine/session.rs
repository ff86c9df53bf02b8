//! A running transfer engine of this process, and the list of all of them. Invariant: the engine
//! inside is touched only by the process that started it. After a fork the child's copy is left
//! alone, because the threads behind it live in the parent.

use crate::lock::lock;
use crate::without_gil;
use perigee_engine::TransferEngine;
use perigee_shard::OwnProcess;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, Weak};

/// Engines that may still run. Locked only while the interpreter is held, so never across a fork.
static LIVE: Mutex<Vec<Weak<EngineSession>>> = Mutex::new(Vec::new());

/// A running engine, shared by a `TransferEngine`, what its `get_engine` gave out, and the stores
/// that were set up with it.
pub(crate) struct EngineSession {
    engine: OwnProcess<TransferEngine>,
}

impl EngineSession {
    /// Takes a running engine and lists it for the interpreter's exit.
    pub(crate) fn start(engine: TransferEngine) -> Arc<Self> {
        let session = Arc::new(Self { engine: OwnProcess::new(engine) });
        let mut live = lock(&LIVE);
        live.retain(|session| session.strong_count() > 0);
        live.push(Arc::downgrade(&session));
        session
    }

    /// Whether this process started the engine.
    pub(crate) fn is_ours(&self) -> bool {
        self.engine.is_here()
    }

    /// The engine, for a caller that knows it is this process's.
    pub(crate) fn engine(&self) -> &TransferEngine {
        self.engine.value()
    }
}

impl Drop for EngineSession {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.get() {
            // Memory of the caller may go away after this, so batches in flight end here.
            engine.close();
        }
    }
}

/// Lets go of a share of a session. Closing waits for threads, so the interpreter is let go if it
/// is still there to be let go.
pub(crate) fn release(session: Arc<EngineSession>) {
    let mut holder = Some(session);
    let released = Python::try_attach(|py| {
        let session = holder.take();
        py.detach(move || drop(session));
    });
    if released.is_none() {
        drop(holder);
    }
}

/// Closes every engine this process started; called by the interpreter when it exits.
#[pyfunction]
#[pyo3(name = "_close_all_engines")]
pub(crate) fn close_all(py: Python<'_>) {
    let sessions: Vec<Arc<EngineSession>> =
        lock(&LIVE).drain(..).filter_map(|it| it.upgrade()).collect();
    py.detach(move || {
        for session in sessions.iter().filter(|session| session.is_ours()) {
            session.engine().close();
        }
        drop(sessions);
    });
    // The last of the exit handlers: stores were closed before.
    without_gil::end(py);
}
