//! A segment and a host buffer of one size: the two memories that every copy of a store lies
//! between.
//! Invariant: both are wholly resident before anything is measured; the segment's words all differ.

use perigee_memory::segment::SegmentOptions;
use perigee_memory::{HostBuffer, Segment};

use crate::error::BenchError;

/// The two memories.
#[derive(Debug)]
pub(crate) struct MemoryPair {
    segment: Segment,
    buffer: HostBuffer,
    bytes: usize,
}

impl MemoryPair {
    /// Two memories of `bytes` bytes, every page touched.
    pub(crate) fn new(bytes: usize) -> Result<Self, BenchError> {
        let pair = Self {
            segment: Segment::create(bytes as u64, &SegmentOptions::default())?,
            buffer: HostBuffer::allocate(bytes)?,
            bytes,
        };
        // SAFETY: the buffer is this long, and nothing else uses it.
        unsafe { pair.buffer.base().write_bytes(0x5A, bytes) };
        let words = pair.segment.base().cast::<u64>();
        for index in 0..bytes / 8 {
            let word = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            // SAFETY: the segment holds this many words, is aligned to a page, and nothing else
            // uses it.
            unsafe { words.add(index).write(word) };
        }
        Ok(pair)
    }

    /// First byte of the segment.
    pub(crate) fn segment(&self) -> *mut u8 {
        self.segment.base()
    }

    /// First byte of the buffer.
    pub(crate) fn buffer(&self) -> *mut u8 {
        self.buffer.base()
    }

    /// Length of each.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
