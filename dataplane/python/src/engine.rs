//! The native `TransferEngine`: its life cycle and what it says about itself and its peers. Memory,
//! transfers and batches are in the submodules. Invariant: every call that can wait lets the
//! interpreter go, and a call without a running engine of this process answers a code.

mod batch;
mod handle;
mod memory;
mod notify;
mod own_memory;
pub(crate) mod session;
mod stream;
mod topology;
mod transfer;

pub(crate) use handle::EngineHandle;
pub(crate) use notify::TransferNotify;
pub(crate) use session::{EngineSession, close_all};

use crate::enumeration::TransferOpcode;
use crate::warning;
use crate::without_gil::without_gil;
use perigee_engine::{EngineError, EngineOptions, TransferEngine};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What calls answer without a running engine, and what failed transfers answer.
const FAILED: i32 = -1;

/// Metadata string of engines that ask each other instead of a server.
const PEER_TO_PEER: &str = "P2PHANDSHAKE";

static FORK_REPORTED: AtomicBool = AtomicBool::new(false);

/// Moves bytes between registered memory of processes, on any host. Methods answer 0 or what they
/// say, or a negative code; they raise `TypeError` for arguments of a wrong type and nothing else.
/// All may be called from several threads at once. Addresses are integers such as
/// `tensor.data_ptr()`; memory given to a call must stay valid until the call is over, memory given
/// to a batch until the batch is.
#[pyclass(frozen, subclass, weakref, name = "TransferEngine", module = "mooncake.engine")]
#[derive(Default)]
pub(crate) struct EngineClient {
    session: RwLock<Option<Arc<EngineSession>>>,
}

impl EngineClient {
    /// The running engine, if this process has one here. Says once when it is another process's.
    pub(crate) fn session(&self, py: Python<'_>) -> Option<Arc<EngineSession>> {
        let session = {
            let slot = self.session.read().unwrap_or_else(PoisonError::into_inner);
            slot.clone()
        }?;
        if session.is_ours() {
            return Some(session);
        }
        if !FORK_REPORTED.swap(true, Ordering::Relaxed) {
            warning::engine_warn(
                py,
                "This process was forked from one that had started the transfer engine; calls fail \
                 here. Make a TransferEngine in the child, or start children with the spawn method",
            );
        }
        None
    }

    fn replace(&self, session: Option<Arc<EngineSession>>) -> Option<Arc<EngineSession>> {
        let mut slot = self.session.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, session)
    }

    /// The running engine, or the code of calls without one and a line in the log.
    fn running(&self, py: Python<'_>, what: &str) -> Result<Arc<EngineSession>, i32> {
        self.session(py).ok_or_else(|| {
            let text =
                format!("{what} failed: the engine is not initialized; call initialize() first");
            warning::engine_error(py, &text);
            FAILED
        })
    }

    /// Runs `work` without the interpreter. A failure is its code, and a line in the log.
    fn call<R: Send>(
        &self,
        py: Python<'_>,
        what: &str,
        work: impl FnOnce(&TransferEngine) -> Result<R, EngineError> + Send,
    ) -> Result<R, i32> {
        let session = self.running(py, what)?;
        let result = without_gil(py, move || work(session.engine()));
        result.map_err(|error| report(py, what, &error))
    }

    /// As `call`, for work that never waits: it is over before the interpreter could be let go.
    fn look<R>(
        &self,
        py: Python<'_>,
        what: &str,
        work: impl FnOnce(&TransferEngine) -> Result<R, EngineError>,
    ) -> Result<R, i32> {
        let session = self.running(py, what)?;
        work(session.engine()).map_err(|error| report(py, what, &error))
    }

    /// As `call`, for work without a result: 0 or the code of its failure.
    fn call_code(
        &self,
        py: Python<'_>,
        what: &str,
        work: impl FnOnce(&TransferEngine) -> Result<(), EngineError> + Send,
    ) -> i32 {
        self.call(py, what, work).map_or_else(|code| code, |()| 0)
    }
}

impl Drop for EngineClient {
    fn drop(&mut self) {
        if let Some(session) = self.replace(None) {
            session::release(session);
        }
    }
}

/// Puts an error into the log; its code.
fn report(py: Python<'_>, what: &str, error: &EngineError) -> i32 {
    warning::engine_error(py, &format!("{what} failed: {error}"));
    error.code()
}

/// The metadata string of a server whose kind was named apart from it.
fn with_kind(metadata_server: &str, kind: &str) -> String {
    let complete = metadata_server == PEER_TO_PEER || metadata_server.contains("://");
    if complete || kind.is_empty() {
        metadata_server.to_owned()
    } else {
        format!("{kind}://{metadata_server}")
    }
}

#[pymethods]
impl EngineClient {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// The class of the directions of `transfer_sync`.
    #[classattr]
    #[pyo3(name = "TransferOpcode")]
    fn opcode(py: Python<'_>) -> Py<PyType> {
        py.get_type::<TransferOpcode>().unbind()
    }

    /// Start the engine. Called again it starts a new one, without the memory of the older.
    ///
    /// local_hostname: this host as others reach it, "host" or "host:port". metadata_server:
    /// "P2PHANDSHAKE" (peers are then named "host:port" with their get_rpc_port()), or
    /// "http://host:port/metadata", "etcd://host:port", "redis://host:port". protocol: "tcp",
    /// "rdma" (TCP where no RDMA device works, unless PERIGEE_REQUIRE_RDMA=1 is set), "shm" (only
    /// memory shared on this host), several with commas, or "": RDMA where it works and TCP
    /// elsewhere. device_name: "" for all NICs, or names "a,b", or a JSON map of them per GPU, or
    /// its file. Returns 0 or a negative code; the log says what was wrong.
    fn initialize(
        &self,
        py: Python<'_>,
        local_hostname: &str,
        metadata_server: &str,
        protocol: &str,
        device_name: &str,
    ) -> i32 {
        let started = without_gil(py, || {
            EngineOptions::new(local_hostname, metadata_server, protocol, device_name)
                .and_then(TransferEngine::start)
        });
        match started {
            Ok(engine) => {
                if let Some(older) = self.replace(Some(EngineSession::start(engine))) {
                    warning::engine_warn(
                        py,
                        "initialize() was called again: a new engine takes the place of the older; \
                         memory must be registered again",
                    );
                    session::release(older);
                }
                0
            }
            Err(error) => report(py, "initialize()", &error),
        }
    }

    /// As `initialize`, with the kind of the metadata server ("http", "etcd", "redis") apart from
    /// its address.
    fn initialize_ext(
        &self,
        py: Python<'_>,
        local_hostname: &str,
        metadata_server: &str,
        protocol: &str,
        device_name: &str,
        metadata_type: &str,
    ) -> i32 {
        let metadata_server = with_kind(metadata_server, metadata_type);
        self.initialize(py, local_hostname, &metadata_server, protocol, device_name)
    }

    /// Returns the port that peers name this engine by with P2PHANDSHAKE; -1 before `initialize`.
    fn get_rpc_port(&self, py: Python<'_>) -> i32 {
        let port = self.look(py, "get_rpc_port()", |engine| Ok(engine.rpc_port()));
        port.map_or_else(|code| code, i32::from)
    }

    /// Returns the address of the first buffer a segment has registered; 0 on failure.
    fn get_first_buffer_address(&self, py: Python<'_>, segment_name: &str) -> u64 {
        let what = format!("get_first_buffer_address({segment_name:?})");
        let address = self.call(py, &what, |engine| engine.first_buffer(segment_name));
        address.unwrap_or(0)
    }

    /// Returns the messages that arrived since the last call, oldest first.
    fn get_notifies(&self, py: Python<'_>) -> Vec<TransferNotify> {
        let notifies = self.look(py, "get_notifies()", |engine| Ok(engine.take_notifies()));
        let notifies = notifies.unwrap_or_default().into_iter();
        notifies.map(TransferNotify::from).collect()
    }

    /// Ask whether a peer is alive. Returns 0, -101 for a name that does not resolve, -102 when
    /// nothing answers there, or another negative code.
    fn send_probe(&self, py: Python<'_>, peer_server_name: &str) -> i32 {
        let what = format!("send_probe({peer_server_name:?})");
        self.call_code(py, &what, |engine| engine.probe(peer_server_name))
    }

    /// Returns 0: connections need no warming up here. It is there for callers that have EFA NICs.
    fn warmup_efa_segment(&self, py: Python<'_>, segment_name: &str) -> i32 {
        warning::without_effect(py, warning::ENGINE_LOGGER, "TransferEngine", "segment_name");
        let what = format!("warmup_efa_segment({segment_name:?})");
        self.running(py, &what).map_or_else(|code| code, |_| 0)
    }

    /// Returns which NICs serve which memory as JSON: {"cpu:0": [[preferred], [others]], ...}.
    ///
    /// device_name narrows it down to those NICs. It needs no `initialize`.
    #[pyo3(signature = (device_name = None))]
    fn get_local_topology(&self, py: Python<'_>, device_name: Option<&str>) -> String {
        let running = device_name.is_none().then(|| self.session(py)).flatten();
        if let Some(session) = running {
            return py.detach(|| session.engine().topology_json());
        }
        match py.detach(|| topology::describe(device_name.unwrap_or(""))) {
            Ok(json) => json,
            Err(error) => {
                warning::engine_error(py, &format!("get_local_topology() failed: {error}"));
                topology::NOTHING.to_owned()
            }
        }
    }

    /// Returns the running engine, to be shared with `MooncakeDistributedStore.setup(engine=...)`;
    /// None before `initialize`.
    fn get_engine(&self, py: Python<'_>) -> Option<EngineHandle> {
        self.session(py).map(EngineHandle::new)
    }

    /// Returns a number that tells running engines of this process apart; 0 before `initialize`.
    ///
    /// It is no address of a C++ object.
    fn get_engine_ptr(&self, py: Python<'_>) -> usize {
        let session = self.session(py);
        session.map_or(0, |session| Arc::as_ptr(&session).addr())
    }
}
