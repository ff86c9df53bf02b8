//! Calls between clients and the master: codec and blocking client.
//!
//! A call runs on the caller's thread over a pooled connection: a hand-over to another thread would cost more than the
//! whole round trip. Every call ends within its deadline.
#![forbid(unsafe_code)]

mod address;
mod breaker;
mod client;
mod connection;
mod error;
mod limits;
mod reply;
mod request;
mod returns;

pub use client::{
    AskedReplicas, ClientOptions, EndedMove, MasterClient, Pong, Task, TaskKind, TaskRefusal,
    TaskState, TaskWish,
};
pub use error::CallError;
pub use limits::CALL_DEADLINE;
pub use reply::{Counted, Located, Location, Moves, SegmentUse, SegmentView, Started};
pub use request::{Holdings, Placement, SegmentOffer, WriteForm};
pub use returns::Lease;
