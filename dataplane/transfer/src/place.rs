//! Where an object lies: a segment and an extent in it.

use perigee_schemas::Identity;
use perigee_schemas::extent::extent_bytes;
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
}

/// One replica of an object.
#[derive(Clone, Debug)]
pub struct ReplicaAddress {
    /// Its segment.
    pub segment: Arc<SegmentAddress>,
    /// First byte of the extent.
    pub offset: u64,
    /// Payload bytes.
    pub payload_bytes: u64,
    /// Number the master gave this allocation.
    pub generation: u64,
}

impl ReplicaAddress {
    /// Whether the whole extent lies inside the segment, at an offset a footer can have.
    pub(crate) fn is_in_bounds(&self) -> bool {
        self.offset.is_multiple_of(8)
            && self.payload_bytes <= perigee_schemas::limits::OBJECT_BYTES_MAX
            && self
                .offset
                .checked_add(extent_bytes(self.payload_bytes))
                .is_some_and(|end| end <= self.segment.bytes)
    }
}
