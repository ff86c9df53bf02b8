//! Where an object lies: a segment and an extent in it.

use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::extent_bytes;
use perigee_schemas::limits::{DISK_SEGMENT_BYTES_MAX, OBJECT_BYTES_MAX};
use perigee_schemas::{Identity, SegmentKind};
use std::sync::Arc;

/// A segment and the ways to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentAddress {
    /// Random identity.
    pub id: Identity,
    /// Usable bytes.
    pub bytes: u64,
    /// `host:port` of the owner's data port.
    pub endpoint: String,
    /// Identity of the owner's host.
    pub host_id: String,
    /// Abstract Unix socket of the owner, empty if it shares no memory.
    pub rendezvous: String,
    /// Memory, or the log of a disk: there offsets are packed disk addresses. None is a kind that
    /// this build cannot read.
    pub kind: Option<SegmentKind>,
}

/// One replica of an object.
#[derive(Clone, Debug)]
pub struct ReplicaAddress {
    /// Segment in which the bytes lie.
    pub segment: Arc<SegmentAddress>,
    /// First byte of the extent.
    pub offset: u64,
    /// Length of the object, without its footer.
    pub payload_bytes: u64,
    /// Number the master gave this allocation.
    pub generation: u64,
}

impl ReplicaAddress {
    /// Whether the whole extent lies inside the segment, at an offset a footer can have.
    pub(crate) fn is_in_bounds(&self) -> bool {
        let (first, limit) = match self.segment.kind {
            None => return false,
            Some(SegmentKind::Memory) => (self.offset, self.segment.bytes),
            Some(SegmentKind::Disk) => {
                let first = DiskAddress::unpack(self.offset).offset;
                (u64::from(first), DISK_SEGMENT_BYTES_MAX)
            }
        };
        first.is_multiple_of(8)
            && self.payload_bytes <= OBJECT_BYTES_MAX
            && first.checked_add(extent_bytes(self.payload_bytes)).is_some_and(|end| end <= limit)
    }

    /// Whether it lies in memory; anything else only its owner can read.
    pub fn is_in_memory(&self) -> bool {
        self.segment.kind == Some(SegmentKind::Memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in_bounds(kind: impl Into<Option<SegmentKind>>, offset: u64, payload_bytes: u64) -> bool {
        let segment = SegmentAddress {
            id: Identity(1),
            bytes: 1 << 20,
            endpoint: String::new(),
            host_id: String::new(),
            rendezvous: String::new(),
            kind: kind.into(),
        };
        let segment = Arc::new(segment);
        ReplicaAddress { segment, offset, payload_bytes, generation: 1 }.is_in_bounds()
    }

    #[test]
    fn an_extent_must_end_inside_its_segment_of_memory_or_of_a_log() {
        assert!(is_in_bounds(SegmentKind::Memory, (1 << 20) - 128, 64));
        assert!(!is_in_bounds(SegmentKind::Memory, 1 << 20, 64));
        let at = |sequence, offset| DiskAddress { sequence, offset }.pack();
        let last = DISK_SEGMENT_BYTES_MAX as u32 - 128;
        assert!(is_in_bounds(SegmentKind::Disk, at(u32::MAX, last), 64));
        assert!(!is_in_bounds(SegmentKind::Disk, at(0, last), 129));
        assert!(!is_in_bounds(SegmentKind::Disk, at(0, 4), 64));
        assert!(!is_in_bounds(SegmentKind::Disk, at(3, 0), u64::MAX / 2));
        assert!(!is_in_bounds(None, 0, 64), "who knows what offsets mean there");
    }
}
