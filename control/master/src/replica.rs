//! The record of one replica: where it lies and its place in its segment's lists.
//! Invariant: every replica is in exactly one list of its segment, or follows one that is, and in
//! one chain of its object.

use perigee_allocator::Extent;
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::extent_bytes;

use crate::columns::{ReplicaLocation, ReplicaState};
use crate::key_event::Medium;
use crate::list_name::ListName;
use crate::slab::NONE;
use crate::tenant::{TenantLane, TenantNumber};

/// Bit of a slot that says that the replica begins a prefix...
const HEAD: u8 = 128;
/// ... and the one that says that it follows another one.
const FOLLOWS: u8 = 64;
/// The bits that are no number of a list.
const MARKS: u8 = HEAD | FOLLOWS;
const _: () = assert!(ListName::ALL.len() <= FOLLOWS as usize);

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
    /// Whose lists of its segment it is in.
    pub(crate) tenant: TenantNumber,
    /// Slot of its list, whether it begins a prefix, and whether it follows.
    slot: u8,
    /// 0 if it holds all of its object, else the number of the part that it holds, from 1.
    part: u8,
}

impl Replica {
    /// One that has no object yet and is in no list.
    pub(crate) fn new(lane: TenantLane, offset: u64, payload_bytes: u64, generation: u64) -> Self {
        Self {
            generation,
            offset,
            payload_bytes,
            segment: lane.segment,
            object: NONE,
            sibling: NONE,
            newer: NONE,
            older: NONE,
            tenant: lane.tenant,
            slot: ListName::Held.slot() as u8,
            part: 0,
        }
    }

    /// The lists that one of is its.
    pub(crate) fn lane(&self) -> TenantLane {
        TenantLane { segment: self.segment, tenant: self.tenant }
    }

    pub(crate) fn list(&self) -> ListName {
        ListName::ALL[usize::from(self.slot & !MARKS)]
    }

    pub(crate) fn set_list(&mut self, list: ListName) {
        self.slot = list.slot() as u8 | self.slot & MARKS;
    }

    /// Whether it is in no list but follows the one replica of its group's that is; `newer` and
    /// `older` link the followers.
    pub(crate) fn follows(&self) -> bool {
        self.slot & FOLLOWS != 0
    }

    pub(crate) fn set_follows(&mut self, follows: bool) {
        self.slot = if follows { self.slot | FOLLOWS } else { self.slot & !FOLLOWS };
    }

    /// The part of its object that it holds, from 0; `None` if it holds all of it.
    pub(crate) fn part(&self) -> Option<u8> {
        self.part.checked_sub(1)
    }

    /// It holds only this part of its object.
    pub(crate) fn set_part(&mut self, part: Option<u8>) {
        self.part = part.map_or(0, |part| part + 1);
    }

    /// Whether its key was among the first of its batch, and so of a prefix.
    pub(crate) fn is_head(&self) -> bool {
        self.slot & HEAD != 0
    }

    pub(crate) fn set_head(&mut self) {
        self.slot |= HEAD;
    }

    /// Whether it lies on a disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.list() == ListName::OnDisk
    }

    /// What it lies on.
    pub(crate) fn medium(&self) -> Medium {
        if self.is_on_disk() { Medium::Disk } else { Medium::Memory }
    }

    /// Whether it was made because its key was hot.
    pub(crate) fn is_extra(&self) -> bool {
        self.list() == ListName::Extra
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
            part: self.part(),
            part_checksum: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_no_larger_than_a_cache_line_less_a_quarter() {
        assert_eq!(size_of::<Replica>(), 48);
    }
}
