//! CRC-32C (Castagnoli) of byte strings and of their concatenations.
//! Invariant: values here are finished checksums (inverted in and out); the kernels work on raw
//! states, and only [`RawState`] crosses that border.

use crate::byte_range::ByteRange;
use crate::guard::{MemoryGone, guarded};
use crate::kernel::{Kernel, KernelWork, RunStart};
use crate::limits::BLOCK_BYTES;
use raw_state::RawState;

pub(crate) mod polynomial;
pub(crate) mod raw_state;
#[cfg(test)]
mod tests;

use polynomial::{ShiftTable, multiply, power_of_x_bytes};

/// Appends one block of [`BLOCK_BYTES`] to a checksum; the length nearly all calls use.
static BLOCK_SHIFT: ShiftTable = ShiftTable::for_bytes(BLOCK_BYTES.get() as u64);

/// CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // SAFETY: the slice is readable for its length, and `KernelWork::Sum` writes nothing.
    unsafe { sum(bytes.as_ptr(), bytes.len()) }
}

/// CRC-32C of `len` bytes at `src`, for memory that others may be writing and no slice may cover.
///
/// # Errors
/// It cannot be read.
///
/// # Safety
/// `src` must be of `len` bytes that this process may read as far as they are there.
pub unsafe fn crc32c_raw(src: *const u8, len: usize) -> Result<u32, MemoryGone> {
    // SAFETY: the caller's promise; a sum holds nothing.
    unsafe { guarded([ByteRange { ptr: src, len }, ByteRange::NOTHING], || sum(src, len)) }
}

/// # Safety
/// `src` must be readable for `len` bytes, or this runs under a guard.
unsafe fn sum(src: *const u8, len: usize) -> u32 {
    let kernel = Kernel::best();
    // SAFETY: the caller vouches for `src`; the destination is not used by `KernelWork::Sum`.
    unsafe {
        kernel.run(KernelWork::Sum, std::ptr::null_mut(), src, len, RunStart::Cold, RawState::START)
    }
    .finish()
}

/// CRC-32C of a concatenation, from the checksums of its two parts and the length of the second.
#[must_use]
pub fn crc32c_combine(first: u32, second: u32, second_bytes: u64) -> u32 {
    if first == 0 {
        // Also the checksum of nothing: zero stays zero under every operator.
        return second;
    }
    if second_bytes == BLOCK_BYTES.get() as u64 {
        return BLOCK_SHIFT.apply(first) ^ second;
    }
    multiply(power_of_x_bytes(second_bytes), first) ^ second
}

/// Appends blocks of one fixed length to a checksum without recomputing the operator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockAppender {
    /// Blocks of [`BLOCK_BYTES`]: four table look-ups.
    Standard,
    /// Any other length: one polynomial product with this operator.
    Operator(u32),
}

impl BlockAppender {
    /// The appender for blocks of `block_bytes`.
    pub(crate) fn new(block_bytes: usize) -> BlockAppender {
        if block_bytes == BLOCK_BYTES.get() {
            BlockAppender::Standard
        } else {
            BlockAppender::Operator(power_of_x_bytes(block_bytes as u64))
        }
    }

    /// Checksum of the bytes of `whole` followed by one block whose checksum is `block`.
    pub(crate) fn append(self, whole: u32, block: u32) -> u32 {
        match self {
            BlockAppender::Standard => BLOCK_SHIFT.apply(whole) ^ block,
            BlockAppender::Operator(operator) => multiply(operator, whole) ^ block,
        }
    }
}
