//! Reading part of an object with the same certainty as the whole: the covering 64 KiB blocks are
//! read and each is checked against its checksum, and the checksums together against the object's.

use crate::error::TransferError;
use crate::extent::MappedExtent;
use crate::place::ReplicaAddress;
use perigee_memory::copy::checksum_slice_blocks;
use perigee_memory::{ByteRangeMut, crc32c_combine};
use perigee_schemas::extent::{BLOCK_BYTES, checksum_count};

/// One range to read.
#[derive(Clone, Debug)]
pub struct RangeJob<'a> {
    /// Where the object lies.
    pub place: &'a ReplicaAddress,
    /// CRC-32C of the whole object.
    pub checksum: u32,
    /// First byte to read.
    pub source_offset: u64,
    /// Where the bytes go; its length is how many are read.
    pub target: ByteRangeMut,
}

/// The blocks that cover a range, being read into memory of ours.
#[derive(Debug)]
pub(crate) struct Cover {
    /// First byte of the first block.
    pub(crate) start: u64,
    /// Payload of the blocks.
    pub(crate) bytes: Vec<u8>,
    /// Checksums of all blocks of the object, little-endian.
    pub(crate) checksums: Vec<u8>,
}

impl Cover {
    /// Room for the blocks of a range.
    pub(crate) fn new(job: &RangeJob<'_>) -> Result<Self, TransferError> {
        let payload = job.place.payload_bytes;
        let wanted = job.target.len as u64;
        let end = job.source_offset.checked_add(wanted).filter(|end| *end <= payload);
        let end = end.ok_or(TransferError::BufferSize { buffers: wanted, wanted: payload })?;
        let start = job.source_offset / BLOCK_BYTES * BLOCK_BYTES;
        let stop = if wanted == 0 { start } else { end.next_multiple_of(BLOCK_BYTES).min(payload) };
        debug_assert!(start <= stop && stop <= payload, "whole blocks of the object");
        let bytes = vec![0; (stop - start) as usize];
        Ok(Self { start, bytes, checksums: vec![0; checksum_count(payload) as usize * 4] })
    }

    /// Whether the range is empty: nothing is read for it.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Fills the cover from mapped memory.
    pub(crate) fn copy_from(
        &mut self,
        extent: MappedExtent,
        generation: u64,
    ) -> Result<(), TransferError> {
        extent.expect_generation(generation)?;
        self.checksums =
            extent.block_checksums().iter().flat_map(|block| block.to_le_bytes()).collect();
        let source = extent.payload(self.start);
        // SAFETY: the cover lies inside the payload, which `MappedExtent::new` vouches for; a
        // concurrent writer is noticed by the checks that follow.
        unsafe { std::ptr::copy_nonoverlapping(source, self.bytes.as_mut_ptr(), self.bytes.len()) };
        extent.expect_generation(generation)
    }

    /// Checks the blocks and copies the range to its target.
    ///
    /// # Safety
    /// The job's target is valid for writes.
    pub(crate) unsafe fn deliver(&self, job: &RangeJob<'_>) -> Result<(), TransferError> {
        if self.is_empty() {
            return Ok(());
        }
        self.check(job.place.payload_bytes, job.checksum)?;
        let from = (job.source_offset - self.start) as usize;
        let source = &self.bytes[from..from + job.target.len];
        // SAFETY: the caller vouches for the target, whose length is the length of `source`.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), job.target.ptr, source.len()) };
        Ok(())
    }

    fn check(&self, payload_bytes: u64, expected: u32) -> Result<(), TransferError> {
        let blocks: Vec<u32> = self
            .checksums
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        let length = |index: usize| BLOCK_BYTES.min(payload_bytes - index as u64 * BLOCK_BYTES);
        let join =
            |whole, (index, block): (usize, &u32)| crc32c_combine(whole, *block, length(index));
        let found = blocks.iter().enumerate().fold(0, join);
        if found != expected {
            return Err(TransferError::Checksum { found, expected });
        }
        let mut read = Vec::new();
        let _whole = checksum_slice_blocks(&self.bytes, &mut read);
        let promised = &blocks[(self.start / BLOCK_BYTES) as usize..];
        match read.iter().zip(promised).find(|(found, expected)| found != expected) {
            Some((found, expected)) => {
                Err(TransferError::Checksum { found: *found, expected: *expected })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::SegmentAddress;
    use perigee_memory::crc32c;
    use std::sync::Arc;

    const BLOCK: usize = BLOCK_BYTES as usize;
    const PAYLOAD: usize = 3 * BLOCK + 100;

    fn place() -> ReplicaAddress {
        let segment = SegmentAddress {
            id: perigee_schemas::Identity(1),
            bytes: 1 << 20,
            endpoint: String::new(),
            host_id: String::new(),
            rendezvous: String::new(),
            kind: Some(perigee_schemas::SegmentKind::Memory),
        };
        ReplicaAddress {
            segment: Arc::new(segment),
            offset: 0,
            payload_bytes: PAYLOAD as u64,
            generation: 1,
        }
    }

    /// Reads a range of an object; `damage` changes what arrived.
    fn read(
        first: usize,
        bytes: usize,
        damage: impl FnOnce(&mut Cover),
    ) -> Result<(), TransferError> {
        let (place, payload) = (place(), vec![7; PAYLOAD]);
        let mut target = vec![0; bytes];
        let job = RangeJob {
            place: &place,
            checksum: crc32c(&payload),
            source_offset: first as u64,
            target: ByteRangeMut::from(target.as_mut_slice()),
        };
        let mut cover = Cover::new(&job)?;
        let start = cover.start as usize;
        let length = cover.bytes.len();
        cover.bytes.copy_from_slice(&payload[start..start + length]);
        let sums = payload.chunks(BLOCK).map(crc32c);
        cover.checksums = sums.flat_map(u32::to_le_bytes).collect();
        damage(&mut cover);
        // SAFETY: the target lives until the end of this function.
        unsafe { cover.deliver(&job) }?;
        assert_eq!(target, payload[first..first + bytes]);
        Ok(())
    }

    #[test]
    fn a_range_is_handed_out_only_if_every_block_that_covers_it_is_right() {
        for (first, bytes) in [(0, PAYLOAD), (BLOCK - 1, 2), (BLOCK, BLOCK), (3 * BLOCK, 100)] {
            read(first, bytes, |_| ()).unwrap();
            let blocks = (first + bytes).div_ceil(BLOCK) - first / BLOCK;
            for block in 0..blocks {
                let read = read(first, bytes, |cover| cover.bytes[block * BLOCK] ^= 1);
                let is_noticed = matches!(read, Err(TransferError::Checksum { .. }));
                assert!(is_noticed, "block {block} of {bytes} bytes at {first}");
            }
        }
    }

    #[test]
    fn sums_that_are_not_the_objects_are_refused() {
        let read = read(0, 10, |cover| cover.checksums[12] ^= 1);
        assert!(matches!(read, Err(TransferError::Checksum { .. })));
    }
}
