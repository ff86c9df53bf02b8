//! A replica that lies in a segment already. Invariant: its bytes are the footer and the payload
//! that it names.

use crate::key::check_key;
use crate::limits::OBJECT_BYTES_MAX;
use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;

/// A complete replica that lies in a segment already.
#[derive(Debug, Clone, Copy)]
pub struct RebuiltReplica<'k> {
    /// Its key.
    pub key: &'k [u8],
    /// Offset of the payload from the start of the segment, in bytes.
    pub offset: u64,
    /// Length of the payload in bytes.
    pub payload_bytes: u64,
    /// CRC-32C of the payload.
    pub checksum: u32,
    /// Number of its allocation.
    pub generation: u64,
    /// Client that wrote it.
    pub client: u128,
}

impl RebuiltReplica<'_> {
    pub(super) fn is_storable(&self) -> bool {
        check_key(self.key).is_ok() && (1..=OBJECT_BYTES_MAX).contains(&self.payload_bytes)
    }

    pub(super) fn extent(&self) -> Extent {
        Extent::new(self.offset, extent_bytes(self.payload_bytes))
    }
}
