//! The rendezvous message: a header (magic, count), then an entry (id, length) per segment, all
//! little-endian; the descriptors travel beside it in the same order.
//! Invariant: the layout is fixed; another layout gets another magic number.

use super::OfferedSegment;
use super::error::RendezvousError;
use crate::limits::RENDEZVOUS_SEGMENTS_MAX;

/// `PERIGEE1` as the peer sees it in memory.
const MAGIC: u64 = u64::from_le_bytes(*b"PERIGEE1");
/// Magic and count, 8 bytes each.
pub(super) const HEADER_BYTES: usize = 16;
/// Identity, 16 bytes, and length, 8 bytes.
pub(super) const ENTRY_BYTES: usize = 24;

/// The bytes of a message.
pub(super) fn encode(segments: &[OfferedSegment<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + segments.len() * ENTRY_BYTES);
    bytes.extend_from_slice(&MAGIC.to_le_bytes());
    bytes.extend_from_slice(&(segments.len() as u64).to_le_bytes());
    for segment in segments {
        bytes.extend_from_slice(&segment.id.to_le_bytes());
        bytes.extend_from_slice(&segment.segment_bytes.to_le_bytes());
    }
    debug_assert_eq!(bytes.len(), HEADER_BYTES + segments.len() * ENTRY_BYTES);
    bytes
}

/// How many entries follow `header`.
pub(super) fn decode_count(header: &[u8; HEADER_BYTES]) -> Result<usize, RendezvousError> {
    let [magic, count] = [read_u64(&header[..8]), read_u64(&header[8..])];
    if magic != MAGIC {
        return Err(RendezvousError::Magic { magic });
    }
    match usize::try_from(count) {
        Ok(count) if count <= RENDEZVOUS_SEGMENTS_MAX => Ok(count),
        _ => Err(RendezvousError::Count { count }),
    }
}

/// The entries (identity, length) of a body.
pub(super) fn decode_entries(body: &[u8]) -> impl Iterator<Item = (u128, u64)> {
    debug_assert!(body.len().is_multiple_of(ENTRY_BYTES), "whole entries");
    body.chunks_exact(ENTRY_BYTES).map(|entry| {
        let id = u128::from(read_u64(&entry[8..16])) << 64 | u128::from(read_u64(&entry[..8]));
        (id, read_u64(&entry[16..]))
    })
}

/// The number in 8 bytes.
fn read_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
