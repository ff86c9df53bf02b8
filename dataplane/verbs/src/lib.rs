//! RDMA verbs behind object-safe traits: the real ones, resolved at run time, and a software fabric
//! whose faults are chosen by the test.
//! Invariant: no other crate knows libibverbs, and no binary has it in its needed list.

pub mod device;
pub mod error;
pub mod gid;
pub mod libibverbs;
pub mod limits;
pub mod ordering;
pub mod queue;
pub mod region;
pub mod registration;
pub mod software;
pub mod work;

pub use device::{Device, DeviceEvent, DeviceInfo, DeviceLimits, DmaBufRange, Fabric, LinkLayer};
pub use error::{PostError, VerbsError};
pub use gid::{Gid, GidKind, GidScope, RankedGid};
pub use queue::{
    CompletionQueue, ConnectOptions, Endpoint, QueuePair, QueuePairCapacity, QueuePairOptions,
    QueuePairState,
};
pub use region::{Access, Region};
pub use work::{Completion, CompletionStatus, Operation, Piece, WorkRequest};
