//! The native half of `MooncakeDistributedStore`: its life cycle. Objects, batches, ranges and
//! segments are in the submodules. Invariant: every call that can wait lets the interpreter go, and
//! a call without an open store of this process answers a code.

mod address;
mod batch;
mod object;
mod range;
mod segment;
mod task;

use crate::arguments::Count;
use crate::session::StoreSession;
use crate::setup::{self, ParsedSetup, SetupError};
use crate::warning;
use crate::without_gil::without_gil;
use perigee_node::{StatusPage, StoreSlot};
use perigee_schemas::Status;
use perigee_store::{Store, StoreConfig};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What calls answer without an open store.
const NOT_OPEN: i32 = Status::InvalidParams.code();

/// Health of a store that is not open.
const HEALTH_CLOSED: i32 = 1;

static FORK_REPORTED: AtomicBool = AtomicBool::new(false);

/// The store client. Methods answer 0 or a count, or a negative code; they raise `TypeError` for
/// arguments of a wrong type and nothing else. All may be called from several threads at once.
#[pyclass(
    frozen,
    subclass,
    weakref,
    name = "MooncakeDistributedStore",
    module = "mooncake._perigee"
)]
#[derive(Default)]
pub(crate) struct StoreClient {
    session: RwLock<Option<Arc<StoreSession>>>,
}

impl StoreClient {
    /// The open store, if this process has one here. Says once when it is another process's.
    fn session(&self, py: Python<'_>) -> Option<Arc<StoreSession>> {
        let session = self.current()?;
        if session.is_ours() {
            return Some(session);
        }
        if !FORK_REPORTED.swap(true, Ordering::Relaxed) {
            warning::warn(
                py,
                "This process was forked from one that had set the store up; calls fail here. \
                 Call setup() in the child, or start children with the spawn method",
            );
        }
        None
    }

    fn current(&self) -> Option<Arc<StoreSession>> {
        let slot = self.session.read().unwrap_or_else(PoisonError::into_inner);
        slot.clone()
    }

    fn take(&self) -> Option<Arc<StoreSession>> {
        let mut slot = self.session.write().unwrap_or_else(PoisonError::into_inner);
        slot.take()
    }

    /// Runs `work` without the interpreter, or answers `absent` when there is no open store.
    fn call<R: Send>(
        &self,
        py: Python<'_>,
        absent: impl FnOnce() -> R,
        work: impl FnOnce(&StoreSession) -> R + Send,
    ) -> R {
        match self.session(py) {
            None => absent(),
            Some(session) => without_gil(py, move || work(&session)),
        }
    }

    /// As `call`, for work that ends with a status.
    fn call_status(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&StoreSession) -> Result<Status, Status> + Send,
    ) -> i32 {
        self.call(py, || NOT_OPEN, |session| work(session).unwrap_or_else(|status| status).code())
    }

    /// Opens a store and makes it this object's; `pool_bytes` is the size of the dummy pool.
    fn open(&self, py: Python<'_>, request: ParsedSetup, pool_bytes: u64) -> i32 {
        let ParsedSetup { config, engine, notices } = request;
        for notice in &notices {
            warning::warn(py, notice);
        }
        if self.current().is_some_and(|session| session.is_ours()) {
            return refuse_second(py);
        }
        let port = config.http_port;
        let opened = without_gil(py, || Store::open(config));
        let store = match opened {
            Ok(store) => Arc::new(store),
            Err(error) => {
                warning::error(py, &format!("Store setup failed: {error}"));
                return error.status().code();
            }
        };
        let page = port.map(|port| {
            let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            StatusPage::start(address, StoreSlot::of(store.clone()))
        });
        let page = match page.transpose() {
            Ok(page) => page,
            Err(error) => {
                warning::error(py, &format!("Store setup failed: {error}"));
                py.detach(move || store.close());
                return Status::InvalidParams.code();
            }
        };
        let session = StoreSession::start(store, page, pool_bytes, engine);
        match self.install(session) {
            Ok(older) => {
                py.detach(move || drop(older));
                Status::Ok.code()
            }
            Err(late) => {
                py.detach(move || drop(late));
                refuse_second(py)
            }
        }
    }

    /// Makes a session this object's, unless another thread was faster: then it comes back as the
    /// error. What is left of a session of the parent process comes back as `Ok`.
    fn install(
        &self,
        session: Arc<StoreSession>,
    ) -> Result<Option<Arc<StoreSession>>, Arc<StoreSession>> {
        let mut slot = self.session.write().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_some_and(|open| open.is_ours()) {
            return Err(session);
        }
        Ok(slot.replace(session))
    }
}

impl Drop for StoreClient {
    fn drop(&mut self) {
        let Some(session) = self.take() else {
            return;
        };
        let mut holder = Some(session);
        // Closing waits for threads, so the interpreter is let go if it is still there to be let
        // go.
        let closed = Python::try_attach(|py| {
            let session = holder.take();
            py.detach(move || drop(session));
        });
        if closed.is_none() {
            drop(holder);
        }
    }
}

/// The answer to `setup` of a store that is open.
fn refuse_second(py: Python<'_>) -> i32 {
    warning::error(py, "The store is set up already; call close() before setup()");
    Status::UnavailableInCurrentStatus.code()
}

#[pymethods]
impl StoreClient {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// setup(local_hostname, metadata_server, global_segment_size, local_buffer_size, protocol,
    /// rdma_devices, master_server_addr, engine=None, enable_ssd_offload=False,
    /// ssd_offload_path="", tenant_id="default", enable_client_http_server=False,
    /// client_http_port=9300, ssd_key_file="") -> int
    /// setup(config: dict) -> int
    ///
    /// Join the cluster. Sizes are bytes; in the dict form they may be texts like "4gb", and
    /// device_name and master_server_address are accepted for rdma_devices and master_server_addr.
    /// engine: a TransferEngine.get_engine(), which then runs at least as long as the store; bytes
    /// of the store go over the store's own connections. Returns 0, -600 for values that make no
    /// sense or a metadata server that does not answer (P2PHANDSHAKE needs none), -900 when the
    /// master cannot be reached. Raises TypeError for a missing, unknown or wrongly typed argument.
    #[pyo3(signature = (*args, **kwargs))]
    fn setup(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<i32> {
        match setup::parse(args, kwargs) {
            Ok(request) => Ok(self.open(py, request, 0)),
            Err(SetupError::Raise(error)) => Err(error),
            Err(SetupError::Code(status, message)) => {
                warning::error(py, &message);
                Ok(status.code())
            }
        }
    }

    /// Join as a client that lends nothing, with memory from `alloc_from_mem_pool`.
    ///
    /// mem_pool_size, local_buffer_size: bytes. server_address: "host:port" of the mooncake_client
    /// on this host, or "unix:/PATH" of its --ipc_socket_path, which may be another user's. The
    /// client talks to the master itself: to MOONCAKE_MASTER if that is set, else to the master of
    /// that mooncake_client. It has the tenant, the protocol and the RDMA devices of that
    /// mooncake_client. Returns 0, or -900 when no mooncake_client answers, or a code of `setup`.
    fn setup_dummy(
        &self,
        py: Python<'_>,
        mem_pool_size: Count,
        local_buffer_size: Count,
        server_address: &str,
    ) -> i32 {
        let asked = py.detach(|| setup::pure_client(server_address, local_buffer_size));
        match asked {
            Ok(config) => self.open(py, config.into(), mem_pool_size.0),
            Err((status, message)) => {
                warning::error(py, &message);
                status.code()
            }
        }
    }

    /// Set up with one host's defaults, for tests: lends `mount_segment_size` bytes.
    #[pyo3(signature = (protocol, device_name, mount_segment_size = Count(16 << 20)))]
    fn init_all(
        &self,
        py: Python<'_>,
        protocol: String,
        device_name: String,
        mount_segment_size: Count,
    ) -> i32 {
        let config = StoreConfig::one_host(&protocol, &device_name, mount_segment_size.0);
        self.open(py, config.into(), 0)
    }

    /// Withdraw this client's memory and leave the cluster. Returns 0, also when nothing is open.
    fn close(&self, py: Python<'_>) -> i32 {
        if let Some(session) = self.take() {
            py.detach(move || {
                if session.is_ours() {
                    session.store().close();
                }
                drop(session);
            });
        }
        Status::Ok.code()
    }

    /// Returns 0 healthy, 1 not set up or closed, 2 master not reachable.
    fn health_check(&self, py: Python<'_>) -> i32 {
        self.call(py, || HEALTH_CLOSED, |session| session.store().health())
    }

    /// Returns "host:port", the name of this client's segments; "" when not set up.
    fn get_hostname(&self, py: Python<'_>) -> String {
        self.call(py, String::new, |session| session.store().hostname())
    }

    /// Tell the store of memory that later calls use, so that it can be pinned for zero copy.
    ///
    /// Returns 0; -600 for an empty range or one that overlaps a registered one.
    fn register_buffer(&self, py: Python<'_>, buffer_ptr: Count, size: Count) -> i32 {
        self.call_status(py, |session| {
            let piece = crate::arguments::piece(buffer_ptr, size)?;
            Ok(session.store().register_buffer(piece.address, piece.bytes))
        })
    }

    /// Undo `register_buffer` of the range that starts at `buffer_ptr`.
    fn unregister_buffer(&self, py: Python<'_>, buffer_ptr: Count) -> i32 {
        self.call(
            py,
            || NOT_OPEN,
            |session| session.store().unregister_buffer(buffer_ptr.get()).code(),
        )
    }

    /// Returns the address of `size` bytes of the pool given to `setup_dummy`; 0 when it is used
    /// up.
    ///
    /// The memory lives until `close()`.
    fn alloc_from_mem_pool(&self, py: Python<'_>, size: Count) -> usize {
        self.call(py, || 0, |session| session.allocate(size.0))
    }
}
