//! A contiguous byte range of a segment's share.
//! Invariant: an extent handed out by the allocator is never empty and never wraps around.

use std::fmt;

/// Bytes `[offset, offset + bytes)`, counted from the start of the managed range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Extent {
    /// The extent of `bytes` bytes that starts at `offset`.
    pub const fn new(offset: u64, bytes: u64) -> Self {
        Self { offset, bytes }
    }

    /// One past the last byte, or `None` if that does not fit in 64 bits.
    pub const fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.bytes)
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Extent of {} bytes at offset {}", self.bytes, self.offset)
    }
}
