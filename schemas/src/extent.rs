//! Layout of one object in a segment: the payload, then a footer that lets any reader check it.
//!
//! ```text
//! offset 0    payload_bytes  to 8   checksum_count x 4 bytes       8 bytes
//! | payload ... | 0..7 zeros | CRC-32C of each 64 KiB block | generation |
//! ```
//!
//! The generation is written last and is the number the master gave to this allocation; a reader
//! that finds another one holds a stale descriptor. All integers are little-endian.

/// Bytes of payload that one checksum of the footer covers.
pub const BLOCK_BYTES: u64 = 64 << 10;
/// Every extent is a multiple of this many bytes.
pub const GRANULE_BYTES: u64 = 16;
/// Extents of at least [`LARGE_BYTES`] are a multiple of this, so that equal large objects stay
/// aligned to cache lines.
pub const LARGE_GRANULE_BYTES: u64 = 64;
/// Payload size from which [`LARGE_GRANULE_BYTES`] applies.
pub const LARGE_BYTES: u64 = 8 << 10;
/// Bytes of the generation at the end of the footer.
pub const GENERATION_BYTES: u64 = 8;

/// Number of block checksums of a payload.
pub const fn checksum_count(payload_bytes: u64) -> u64 {
    payload_bytes.div_ceil(BLOCK_BYTES)
}

/// Offset of the footer from the start of the extent.
pub const fn footer_offset(payload_bytes: u64) -> u64 {
    payload_bytes.next_multiple_of(8)
}

/// Bytes of the footer: the block checksums and the generation.
pub const fn footer_bytes(payload_bytes: u64) -> u64 {
    (checksum_count(payload_bytes) * 4).next_multiple_of(8) + GENERATION_BYTES
}

/// Offset of the generation from the start of the extent.
pub const fn generation_offset(payload_bytes: u64) -> u64 {
    footer_offset(payload_bytes) + footer_bytes(payload_bytes) - GENERATION_BYTES
}

/// Bytes to allocate for a payload. `payload_bytes` is at most [`crate::limits::OBJECT_BYTES_MAX`].
pub const fn extent_bytes(payload_bytes: u64) -> u64 {
    let bytes = footer_offset(payload_bytes) + footer_bytes(payload_bytes);
    if payload_bytes >= LARGE_BYTES {
        bytes.next_multiple_of(LARGE_GRANULE_BYTES)
    } else {
        bytes.next_multiple_of(GRANULE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footer_fits_behind_the_payload() {
        for payload in [1, 7, 8, 9, 4096, 65_535, 65_536, 65_537, (1 << 20) + 17, 1 << 40] {
            assert!(footer_offset(payload) >= payload);
            assert_eq!(generation_offset(payload) % 8, 0);
            assert!(generation_offset(payload) + GENERATION_BYTES <= extent_bytes(payload));
            assert_eq!(extent_bytes(payload) % GRANULE_BYTES, 0);
        }
    }

    #[test]
    fn overhead_of_a_block_is_small() {
        assert_eq!(extent_bytes(65_536), 65_536 + 64);
        assert_eq!(extent_bytes(4096), 4096 + 16);
    }
}
