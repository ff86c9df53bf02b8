//! Objects in mapped memory: writing one with its footer, reading one with every check.
//!
//! A writer first makes the generation invalid, then writes payload and block checksums, then the
//! generation. A reader takes the generation before and after it copies; together with the checksum
//! that catches any reuse in between.

use crate::error::TransferError;
use perigee_memory::copy::{gather_blocks, scatter_blocks};
use perigee_memory::limits::BLOCK_BYTES;
use perigee_memory::{ByteRange, ByteRangeMut, Segment};
use perigee_schemas::extent::{
    GENERATION_BYTES, checksum_count, extent_bytes, footer_bytes, footer_offset, generation_offset,
};
use std::sync::atomic::{AtomicU64, Ordering, fence};

const INVALID_GENERATION: u64 = 0;

/// An extent in memory that this process has mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedExtent {
    base: *mut u8,
    payload_bytes: u64,
}

impl MappedExtent {
    /// # Safety
    /// `base` must be valid for reads and writes of `extent_bytes(payload_bytes)` bytes for as long
    /// as the value is used and aligned to 8. Other processes may write there at any time.
    pub(crate) unsafe fn new(base: *mut u8, payload_bytes: u64) -> Self {
        debug_assert_eq!(base as usize % 8, 0);
        debug_assert!(extent_bytes(payload_bytes) >= payload_bytes);
        Self { base, payload_bytes }
    }

    /// Copies the pieces in, writes the footer and returns the CRC-32C of the payload.
    pub(crate) fn write(
        &self,
        generation: u64,
        pieces: &[ByteRange],
    ) -> Result<u32, TransferError> {
        let bytes: u64 = pieces.iter().map(|piece| piece.len as u64).sum();
        if bytes != self.payload_bytes {
            return Err(TransferError::BufferSize { buffers: bytes, wanted: self.payload_bytes });
        }
        // Before the first new byte: a reader of the old object notices, even if all bytes that it
        // copies are still the old ones.
        self.generation().store(INVALID_GENERATION, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut blocks = Vec::with_capacity(checksum_count(bytes) as usize);
        // SAFETY: the pieces total exactly the payload; the caller vouches for them, `new` for the
        // extent.
        let checksum = unsafe { gather_blocks(self.base, pieces, BLOCK_BYTES, &mut blocks) };
        debug_assert_eq!(blocks.len() as u64, checksum_count(bytes));
        self.write_block_checksums(&blocks);
        // After the last byte: a reader that finds this generation finds all of them.
        fence(Ordering::SeqCst);
        self.generation().store(generation, Ordering::Release);
        Ok(checksum)
    }

    /// Copies the payload out and checks generation and checksum.
    pub(crate) fn read(
        &self,
        generation: u64,
        expected: u32,
        pieces: &[ByteRangeMut],
    ) -> Result<(), TransferError> {
        let bytes: u64 = pieces.iter().map(|piece| piece.len as u64).sum();
        if bytes != self.payload_bytes {
            return Err(TransferError::BufferSize { buffers: bytes, wanted: self.payload_bytes });
        }
        self.expect_generation(generation)?;
        let mut blocks = Vec::with_capacity(checksum_count(bytes) as usize);
        // SAFETY: the pieces total exactly the payload; the caller vouches for them, `new` for the
        // extent.
        let found = unsafe { scatter_blocks(pieces, self.base, BLOCK_BYTES, &mut blocks) };
        self.expect_generation(generation)?;
        if found == expected { Ok(()) } else { Err(TransferError::Checksum { found, expected }) }
    }

    /// Fails if the extent holds another object.
    pub(crate) fn expect_generation(&self, generation: u64) -> Result<(), TransferError> {
        fence(Ordering::SeqCst);
        if self.generation().load(Ordering::Acquire) == generation {
            Ok(())
        } else {
            Err(TransferError::Stale)
        }
    }

    /// The block checksums as the footer has them now.
    pub(crate) fn block_checksums(&self) -> Vec<u32> {
        let count = checksum_count(self.payload_bytes) as usize;
        let mut bytes = vec![0u8; count * 4];
        let footer = self.base.wrapping_add(footer_offset(self.payload_bytes) as usize);
        // SAFETY: the footer lies inside the extent and holds `count` checksums of 4 bytes.
        unsafe { std::ptr::copy_nonoverlapping(footer, bytes.as_mut_ptr(), bytes.len()) };
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    /// Address of a byte of the payload.
    pub(crate) fn payload(&self, offset: u64) -> *const u8 {
        debug_assert!(offset <= self.payload_bytes);
        self.base.wrapping_add(offset as usize)
    }

    fn write_block_checksums(&self, blocks: &[u32]) {
        debug_assert!(blocks.len() as u64 * 4 < footer_bytes(self.payload_bytes));
        let footer = self.base.wrapping_add(footer_offset(self.payload_bytes) as usize);
        for (index, block) in blocks.iter().enumerate() {
            let bytes = block.to_le_bytes();
            // SAFETY: the footer has room for one checksum per block of the payload.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), footer.wrapping_add(index * 4), 4);
            };
        }
    }

    fn generation(&self) -> &AtomicU64 {
        let address = self.base.wrapping_add(generation_offset(self.payload_bytes) as usize);
        // SAFETY: the generation lies inside the extent, is aligned to 8 and is only accessed
        // atomically.
        unsafe { AtomicU64::from_ptr(address.cast()) }
    }
}

/// Whether an object lies in a segment of this process as it was written: nothing else was since,
/// as far as that can be seen without making pages.
pub fn holds(segment: &Segment, offset: u64, payload_bytes: u64, generation: u64) -> bool {
    let at = offset.saturating_add(generation_offset(payload_bytes));
    let base = segment.range(offset, extent_bytes(payload_bytes));
    let Some(base) = base.filter(|base| (*base as usize).is_multiple_of(8)) else {
        return false;
    };
    // SAFETY: the extent lies inside the segment, which stays mapped meantime, and is aligned.
    let extent = unsafe { MappedExtent::new(base, payload_bytes) };
    !segment.is_populated(at, GENERATION_BYTES) || extent.expect_generation(generation).is_ok()
}

/// The footer of an object as bytes, for routes that write it like payload.
pub(crate) fn footer(payload_bytes: u64, blocks: &[u32], generation: u64) -> Vec<u8> {
    // A missing checksum would be written as 0, and the object never be read again.
    assert_eq!(blocks.len() as u64, checksum_count(payload_bytes), "one per block");
    let mut bytes = vec![0u8; footer_bytes(payload_bytes) as usize];
    for (slot, block) in bytes.chunks_exact_mut(4).zip(blocks) {
        slot.copy_from_slice(&block.to_le_bytes());
    }
    let at = bytes.len() - 8;
    bytes[at..].copy_from_slice(&generation.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_memory::segment::SegmentOptions;
    use perigee_memory::{Segment, crc32c};

    fn piece(bytes: &[u8]) -> [ByteRange; 1] {
        [ByteRange::from(bytes)]
    }

    fn read_back(
        extent: MappedExtent,
        generation: u64,
        checksum: u32,
        bytes: usize,
    ) -> Result<Vec<u8>, TransferError> {
        let mut out = vec![0u8; bytes];
        extent.read(generation, checksum, &[ByteRangeMut::from(out.as_mut_slice())])?;
        Ok(out)
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else_passes() {
        let segment = Segment::create(1 << 20, &SegmentOptions::default()).unwrap();
        segment.populate(0, 1 << 20).unwrap();
        for bytes in [1usize, 8, 4096, 65_536, 65_537, 200_001] {
            let data: Vec<u8> = (0..bytes).map(|i| (i * 31 + bytes) as u8).collect();
            // SAFETY: the segment is larger than any extent used here.
            let extent = unsafe { MappedExtent::new(segment.base(), bytes as u64) };
            let checksum = extent.write(77, &piece(&data)).unwrap();
            assert_eq!(checksum, crc32c(&data));
            assert_eq!(extent.block_checksums().len(), bytes.div_ceil(65_536));
            assert_eq!(read_back(extent, 77, checksum, bytes).unwrap(), data);
            assert_eq!(read_back(extent, 78, checksum, bytes), Err(TransferError::Stale));
            let holds = |offset, generation| holds(&segment, offset, bytes as u64, generation);
            assert!(holds(0, 77) && !holds(0, 78) && !holds(16, 77));
            assert!(!holds(4, 77) && !holds(1 << 20, 77) && !holds(u64::MAX, 77));
            // SAFETY: inside the extent.
            unsafe { *segment.base() ^= 1 };
            assert!(matches!(
                read_back(extent, 77, checksum, bytes),
                Err(TransferError::Checksum { .. })
            ));
        }
    }

    #[test]
    fn the_footer_as_bytes_equals_the_footer_in_memory() {
        let segment = Segment::create(1 << 20, &SegmentOptions::default()).unwrap();
        let data = vec![5u8; 150_000];
        // SAFETY: the segment is larger than the extent.
        let extent = unsafe { MappedExtent::new(segment.base(), 150_000) };
        extent.write(9, &piece(&data)).unwrap();
        let bytes = footer(150_000, &extent.block_checksums(), 9);
        let at = segment.range(footer_offset(150_000), bytes.len() as u64).unwrap();
        // SAFETY: the range was just checked.
        let in_memory = unsafe { std::slice::from_raw_parts(at, bytes.len()) };
        assert_eq!(bytes, in_memory);
    }
}
