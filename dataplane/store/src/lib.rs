//! The store client: put, get and batches on top of the master and the transports.
//!
//! [`Store`] is one client: it may donate segments, and it puts and gets objects. The invariant:
//! every call ends within its deadlines with a status per key, and a key that reads as present has
//! exactly the bytes that were put.
#![deny(unsafe_code)]

mod addresses;
pub mod api;
mod caller_memory;
mod calls;
mod client;
mod codes;
mod counting;
mod device_stages;
pub mod disks;
mod donation;
mod environment;
mod error;
mod get;
mod heartbeat;
mod host;
mod introduction;
pub mod ledger;
mod limits;
mod lookup;
mod metadata;
mod mover;
mod parts;
mod port_range;
mod ports;
mod put;
mod ranges;
mod rdma;
mod read_failure;
mod refusals;
mod traced_call;
mod traced_read;
mod traffic_log;
mod unreachable;

pub use api::{
    CallerRange, DiskSettings, GetRequest, PutRequest, RangeRequest, ReplicaInfo, ReplicateConfig,
    SegmentId, SoftPinAction, StorageKey, StoreConfig,
};
pub use client::Store;
pub use codes::count_or_code;
pub use environment::StoreEnvironment;
pub use error::StoreError;
pub use introduction::{NodeAnswer, ask_node, ask_node_at, introduction_name};
pub use lookup::{Lookup, ReadLease};
pub use perigee_rpc::{Task, TaskKind, TaskSpec, TaskState};
pub use port_range::PortRange;
pub use traced_read::TracedRead;
