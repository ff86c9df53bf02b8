//! Moving slices between segments and buffers: same process, shared memory, RDMA, TCP.
//!
//! [`ObjectEngine`] moves whole objects and ranges for a client; [`SegmentServer`] serves the
//! segments of a process to others. The invariant: bytes are handed out only after their length,
//! generation and checksum were checked on this side.

mod activity;
mod client;
mod disk_piece;
mod engine;
mod error;
mod extent;
mod limits;
mod place;
mod range;
mod route;
mod segments;
mod server;

pub use engine::{
    ObjectEngine, ObjectEngineOptions, PromotionJob, ReadJob, SegmentClient, SubmittedJobs,
    WriteJob,
};
pub use error::TransferError;
pub use extent::holds;
pub use limits::TRANSFER_DEADLINE;
pub use perigee_mover::PeerError;
pub use perigee_schemas::{Direction, Route};
pub use place::{ReplicaAddress, SegmentAddress};
pub use range::RangeJob;
pub use route::{Observer, Routes};
pub use segments::SegmentTable;
pub use server::{SegmentServer, SegmentServerError, SegmentShardServer, ServerOptions};
