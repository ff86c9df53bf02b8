//! RDMA verbs behind object-safe traits: the real ones, resolved at run time, and a software fabric
//! whose faults are chosen by the test.
//! Invariant: no other crate knows libibverbs, and no binary has it in its needed list.

mod capacity;
pub mod device;
mod device_info;
pub mod error;
pub mod gid;
pub mod libibverbs;
pub mod limits;
mod link;
pub mod ordering;
pub mod queue;
pub mod region;
pub mod registration;
pub mod software;
pub mod work;

pub use capacity::QueuePairCapacity;
pub use device::{Device, DeviceEvent, DmaBufRange, Fabric};
pub use device_info::DeviceInfo;
pub use device_info::{DeviceLimits, LinkLayer};
pub use error::{PostError, VerbsError};
pub use gid::{GidKind, GidReach, PortGid, RankedPortGid};
pub use link::LinkOptions;
pub use queue::{
    CompletionQueue, ConnectOptions, EndpointAddress, QueuePair, QueuePairOptions, QueuePairState,
};
pub use region::{Region, RegionAccess};
pub use work::{CompletionStatus, Sge, WorkCompletion, WorkOperation, WorkRequest};
