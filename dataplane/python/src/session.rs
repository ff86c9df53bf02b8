//! An open store of this process, and the list of all of them. Invariant: the store inside is
//! touched only by the process that opened it. After a fork the child's copy is left alone, because
//! the threads behind it live in the parent.

use crate::engine::session::EngineSession;
use crate::limits::MAX_READ_SESSION_KEYS;
use crate::lock::lock;
use crate::staging::Staging;
use perigee_http::HttpHandle;
use perigee_memory::host::HostBuffer;
use perigee_schemas::Status;
use perigee_shard::OwnProcess;
use perigee_store::{ReadLease, Store};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

/// Stores that may still be open. Locked only while the interpreter is held, so never across a
/// fork.
static LIVE: Mutex<Vec<Weak<StoreSession>>> = Mutex::new(Vec::new());

/// An open store with the state that only the Python API has.
pub(crate) struct StoreSession {
    /// The leases of open read sessions, by key. A lease gives itself back to the store when it is
    /// dropped.
    readers: OwnProcess<Mutex<Readers>>,
    page: OwnProcess<Option<HttpHandle>>,
    store: OwnProcess<Arc<Store>>,
    pub(crate) staging: Mutex<Staging>,
    pool: Mutex<MemoryPool>,
    /// Held, not used: an engine that is shared with a store must outlive the store.
    _engine: Option<Arc<EngineSession>>,
}

type Readers = HashMap<String, Vec<Option<ReadLease>>>;

/// Memory handed out by `alloc_from_mem_pool`, freed with the store.
#[derive(Default)]
struct MemoryPool {
    free_bytes: u64,
    buffers: Vec<HostBuffer>,
}

impl StoreSession {
    /// Takes an open store with its status page, if it has one, and lists it for the interpreter's
    /// exit.
    pub(crate) fn start(
        store: Arc<Store>,
        page: Option<HttpHandle>,
        pool_bytes: u64,
        engine: Option<Arc<EngineSession>>,
    ) -> Arc<Self> {
        let session = Arc::new(Self {
            readers: OwnProcess::new(Mutex::default()),
            page: OwnProcess::new(page),
            store: OwnProcess::new(store),
            staging: Mutex::default(),
            pool: Mutex::new(MemoryPool { free_bytes: pool_bytes, buffers: Vec::new() }),
            _engine: engine,
        });
        let mut live = lock(&LIVE);
        live.retain(|session| session.strong_count() > 0);
        live.push(Arc::downgrade(&session));
        session
    }

    /// Whether this process opened the store.
    pub(crate) fn is_ours(&self) -> bool {
        self.store.is_here()
    }

    /// The store, for a caller that knows it is this process's.
    pub(crate) fn store(&self) -> &Store {
        self.store.value()
    }

    /// Opens a read session of each key that exists; sessions of one key nest. Each holds its read
    /// lease until it ends.
    pub(crate) fn begin_reads(&self, keys: &[&str]) -> Vec<i32> {
        let mut lookup = self.store().locate(keys);
        let mut readers = lock(self.readers.value());
        keys.iter()
            .enumerate()
            .map(|(index, key)| match lookup.object(index) {
                Ok(_) if readers.len() >= MAX_READ_SESSION_KEYS && !readers.contains_key(*key) => {
                    Status::NoAvailableHandle.code()
                }
                Ok(_) => {
                    let leases = readers.entry((*key).to_owned()).or_default();
                    leases.push(lookup.take_lease(index));
                    Status::Ok.code()
                }
                Err(status) => status.code(),
            })
            .collect()
    }

    /// Whether a read session of the key is open.
    pub(crate) fn reads(&self, key: &str) -> bool {
        lock(self.readers.value()).contains_key(key)
    }

    /// Ends one read session of each key; unknown keys are left alone.
    pub(crate) fn end_reads(&self, keys: &[&str]) {
        let mut readers = lock(self.readers.value());
        for key in keys {
            if let Some(leases) = readers.get_mut(*key) {
                leases.pop();
                if leases.is_empty() {
                    readers.remove(*key);
                }
            }
        }
    }

    /// Address of new pool memory; 0 when the pool has no room.
    pub(crate) fn allocate(&self, bytes: u64) -> usize {
        let mut pool = lock(&self.pool);
        if bytes == 0 || bytes > pool.free_bytes {
            return 0;
        }
        let Ok(buffer) = HostBuffer::allocate(bytes as usize) else {
            return 0;
        };
        let address = buffer.base() as usize;
        self.store().register_with_devices(address, buffer.len());
        pool.free_bytes -= bytes;
        pool.buffers.push(buffer);
        address
    }
}

impl Drop for StoreSession {
    fn drop(&mut self) {
        self.page = OwnProcess::new(None);
        if let Some(store) = self.store.get() {
            store.close();
        }
    }
}

/// Closes every store this process opened; called by the interpreter when it exits.
#[pyfunction]
#[pyo3(name = "_close_all_stores")]
pub(crate) fn close_all(py: Python<'_>) {
    let sessions: Vec<Arc<StoreSession>> =
        lock(&LIVE).drain(..).filter_map(|it| it.upgrade()).collect();
    py.detach(move || {
        for session in sessions.iter().filter(|session| session.is_ours()) {
            session.store().close();
        }
        drop(sessions);
    });
}
