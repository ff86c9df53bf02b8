//! The transfer engine: registered memory, batches of one-sided reads and writes, deadlines, notifies.
//!
//! [`TransferEngine`] is the whole surface. The invariant: no peer reads or writes outside what is registered here, on
//! any route, and every call ends.

mod arena;
mod batch;
mod engine;
mod error;
mod fallback;
mod handshake_handler;
mod herald;
mod inbox;
mod limits;
mod lives;
mod local_name;
mod nearness;
mod observer;
mod options;
mod peer_addresses;
mod plan;
mod rdma;
mod registered_memory;
mod registry;
mod report;
mod request;
mod segments;
mod shard_client;
mod shard_server;
mod shared_memory;
mod slice;
mod tally;
mod target;

pub use engine::TransferEngine;
pub use error::EngineError;
pub use limits::{
    ARENA_BYTES, BATCH_REQUESTS_MAX, BATCHES_MAX, MANAGED_BYTES_MAX, MANAGED_BYTES_MIN,
    NOTIFIES_MAX, REGIONS_MAX, TRANSFER_DEADLINE, UNREGISTER_DEADLINE,
};
pub use observer::{Observer, Unobserved};
pub use options::EngineOptions;
pub use perigee_device::{DeviceMemory, DmaBuf, GivenDevices};
pub use perigee_mover::{PeerError, Route};
pub use perigee_rdma::GivenFabric;
pub use registry::Location;
pub use report::RailReport;
pub use request::{BatchId, Direction, Notify, Request, RequestStatus, State, SubmitOptions};
pub use shard_client::{Journey, ShardClient, ShardTarget};
pub use shard_server::{Leaving, ShardServer};
