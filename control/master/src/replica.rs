//! The record of one replica: where it lies and its place in its segment's lists.
//! Invariant: every replica is in exactly one list of its segment, or follows one that is, and in
//! one chain of its object.

use perigee_allocator::Extent;
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::extent_bytes;

use crate::columns::{ReplicaLocation, ReplicaState};
use crate::list_name::ListName;

#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) generation: u64,
    /// Offset from the start of the segment; on a disk the packed address.
    pub(crate) offset: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) segment: u32,
    pub(crate) object: u32,
    /// Next replica of the same object, or `NONE`.
    pub(crate) sibling: u32,
    /// Neighbour that was touched later, or `NONE`.
    pub(crate) newer: u32,
    /// Neighbour that was touched earlier, or `NONE`.
    pub(crate) older: u32,
    pub(crate) list: ListName,
    /// It is in no list but follows the one replica of its group's that is; `newer` and `older`
    /// link the followers.
    pub(crate) follows: bool,
}

impl Replica {
    /// Whether it lies on a disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.list == ListName::OnDisk
    }

    /// Where it lies on its disk.
    pub(crate) fn address(&self) -> DiskAddress {
        debug_assert!(self.is_on_disk(), "memory has offsets");
        DiskAddress::unpack(self.offset)
    }

    /// The bytes it occupies in the segment: payload and footer.
    pub(crate) fn extent(&self) -> Extent {
        Extent::new(self.offset, extent_bytes(self.payload_bytes))
    }

    /// What clients see.
    pub(crate) fn location(&self, state: ReplicaState) -> ReplicaLocation {
        ReplicaLocation {
            segment: self.segment,
            state,
            offset: self.offset,
            payload_bytes: self.payload_bytes,
            generation: self.generation,
        }
    }
}
