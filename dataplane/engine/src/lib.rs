//! The transfer engine: registered memory, batches of one-sided reads and writes, deadlines,
//! notifies.
//!
//! [`TransferEngine`] is the whole surface. The invariant: no peer reads or writes outside what is
//! registered here, on any route, and every call ends.

mod arena;
mod batch;
mod batch_counting;
mod engine;
mod error;
mod fallback;
mod handshake_handler;
mod limits;
mod local_name;
mod memory_affinity;
mod notify_inbox;
mod notify_sender;
mod observer;
mod options;
mod peer_addresses;
mod plan;
mod question;
mod rdma;
mod registered_memory;
mod registry;
mod report;
mod request;
mod request_piece;
mod restarts;
mod segments;
mod shard_client;
mod shard_server;
mod shared_memory;
mod slice;
mod target;
mod traffic_log;

pub use engine::TransferEngine;
pub use error::{BatchError, BufferError, EngineError};
pub use limits::{
    ARENA_BYTES, BATCH_REQUESTS_MAX, BATCHES_MAX, MANAGED_BYTES_MAX, MANAGED_BYTES_MIN,
    NOTIFIES_MAX, REGIONS_MAX, TRANSFER_DEADLINE, UNREGISTER_DEADLINE,
};
pub use observer::{BatchObserver, Unobserved};
pub use options::EngineOptions;
pub use perigee_device::{DeviceMemory, DmaBuf, GivenDevices};
pub use perigee_mover::PeerError;
pub use perigee_rdma::GivenFabric;
pub use perigee_schemas::Route;
pub use registry::MemoryLocation;
pub use report::RouteReport;
pub use request::{
    BatchId, Direction, Notify, RequestStatus, SubmitOptions, TransferRequest, TransferState,
};
pub use shard_client::{ShardClient, ShardTarget, SubmittedBatch};
pub use shard_server::{Leaving, ShardServer};
