//! GIDs of an RDMA port and their order of preference. Invariant: a pure function of the entries;
//! RoCE v2 comes before v1, and an address that a router can forward before one that it cannot.

pub(crate) mod address;
pub(crate) mod choice;
pub(crate) mod entry;

pub use address::{Gid, GidScope};
pub use choice::{RankedGid, can_pair, choose, rank};
pub use entry::{GidEntry, GidType};
