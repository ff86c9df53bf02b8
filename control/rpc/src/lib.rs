//! Calls between clients and the master: codec and blocking client.
//!
//! A call runs on the caller's thread over a pooled connection: a hand-over to another thread would
//! cost more than the whole round trip. Every call ends within its deadline.
#![forbid(unsafe_code)]

mod address;
mod breaker;
mod client;
mod connection;
mod error;
mod limits;
mod owner;
mod reply;
mod request;
mod returns;

pub use client::disks::{EndedDemotion, FoundCopy};
pub use client::membership::{OfferedDirectory, Pong};
pub use client::moves::EndedMove;
pub use client::objects::{AskedReplicas, LookupPurpose};
pub use client::tasks::{Task, TaskKind, TaskRefusal, TaskSpec, TaskState};
pub use client::{ClientOptions, MasterClient};
pub use error::CallError;
pub use limits::{CALL_DEADLINE, CONNECT_DEADLINE};
pub use owner::{AnnouncementPart, announce_request, follow_request};
pub use reply::{
    Counted, DemotionBatch, KeyPage, ListedDisks, LocatedBatch, Location, Moves, ReplySegment,
    SegmentUse, StartedBatch, SuspectPlace, TenantUse, Tombstone,
};
pub use request::{DiskReport, LentSegments, MountForm, SegmentOffer, WirePlacement, WriteForm};
pub use returns::Lease;
