//! Copies that return the CRC-32C of the bytes they moved, in one pass; the heart of the same-host
//! path. Invariant: when a function here returns, all its stores are visible to every thread that
//! learns of its return.
//!
//! A checksum describes the bytes as they were stored: a source that changes during the copy gives
//! a copy and a checksum that agree with each other.

use std::num::NonZeroUsize;

use crate::byte_range::{ByteRange, ByteRangeMut};
use crate::checksum::raw_state::RawState;
use crate::kernel::{self, Kernel, KernelWork, RunStart};
use crate::limits::BLOCK_BYTES;
use work::work_for;

mod copier;
#[cfg(test)]
mod tests;
mod work;

pub use copier::ChecksumCopier;

/// Copies `len` bytes and returns their CRC-32C.
///
/// # Safety
/// `src` must be readable and `dst` writable for `len` bytes, and they must not overlap.
pub unsafe fn copy_with_checksum(dst: *mut u8, src: *const u8, len: usize) -> u32 {
    let work = work_for(len);
    // SAFETY: the caller's promises; the best kernel is available.
    let state = unsafe { Kernel::best().run(work, dst, src, len, RunStart::Cold, RawState::START) };
    if work == KernelWork::Stream {
        kernel::fence();
    }
    state.finish()
}

/// Copies `len` bytes, by streaming stores when long, without a checksum.
///
/// # Safety
/// As [`copy_with_checksum`].
pub unsafe fn copy_streaming(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promises; the best kernel is available.
    unsafe {
        if work_for(len) == KernelWork::Stream {
            Kernel::best().copy_only(dst, src, len);
            kernel::fence();
        } else {
            dst.copy_from_nonoverlapping(src, len);
        }
    }
}

/// Copies `len` bytes; fills `blocks` with the CRC-32C of each block of `block_bytes` (the last may
/// be shorter) and returns that of the whole.
///
/// # Safety
/// As [`copy_with_checksum`].
pub unsafe fn copy_blocks(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    block_bytes: NonZeroUsize,
    blocks: &mut Vec<u32>,
) -> u32 {
    let mut copier = ChecksumCopier::new(len, block_bytes, blocks);
    // SAFETY: the caller's promises.
    unsafe { copier.copy(dst, src, len) };
    copier.finish()
}

/// As [`copy_blocks`] without the copy: fills `blocks` and returns the checksum of the whole.
///
/// # Safety
/// `src` must be readable for `len` bytes.
pub unsafe fn checksum_blocks(
    src: *const u8,
    len: usize,
    block_bytes: NonZeroUsize,
    blocks: &mut Vec<u32>,
) -> u32 {
    let mut copier = ChecksumCopier::new(len, block_bytes, blocks);
    // SAFETY: the caller's promises.
    unsafe { copier.checksum(src, len) };
    copier.finish()
}

/// Copies `pieces`, one behind the other, to `dst`; block checksums as [`copy_blocks`], with block
/// borders counted along the destination.
///
/// # Safety
/// Every piece must be readable, `dst` writable for their total length, and `dst` must overlap
/// none.
pub unsafe fn gather_blocks(
    dst: *mut u8,
    pieces: &[ByteRange],
    block_bytes: NonZeroUsize,
    blocks: &mut Vec<u32>,
) -> u32 {
    let total_bytes = pieces.iter().fold(0, |sum: usize, piece| sum.saturating_add(piece.len));
    let mut copier = ChecksumCopier::new(total_bytes, block_bytes, blocks);
    let mut at = dst;
    for piece in pieces {
        // SAFETY: `at` lies as far into the destination as the pieces before this one are long.
        unsafe {
            copier.copy(at, piece.ptr, piece.len);
            at = at.add(piece.len);
        }
    }
    copier.finish()
}

/// Copies the bytes at `src` to `pieces`, filling one after the other; block checksums as
/// [`copy_blocks`], with block borders counted along the source.
///
/// # Safety
/// Every piece must be writable, `src` readable for their total length, and no two may overlap.
pub unsafe fn scatter_blocks(
    pieces: &[ByteRangeMut],
    src: *const u8,
    block_bytes: NonZeroUsize,
    blocks: &mut Vec<u32>,
) -> u32 {
    let total_bytes = pieces.iter().fold(0, |sum: usize, piece| sum.saturating_add(piece.len));
    let mut copier = ChecksumCopier::new(total_bytes, block_bytes, blocks);
    let mut at = src;
    for piece in pieces {
        // SAFETY: `at` lies as far into the source as the pieces before this one are long.
        unsafe {
            copier.copy(piece.ptr, at, piece.len);
            at = at.add(piece.len);
        }
    }
    copier.finish()
}

/// As [`gather_blocks`] without the copy.
///
/// # Safety
/// Every piece must be readable.
pub unsafe fn checksum_pieces(
    pieces: &[ByteRange],
    block_bytes: NonZeroUsize,
    blocks: &mut Vec<u32>,
) -> u32 {
    let mut copier = ChecksumCopier::new(0, block_bytes, blocks);
    for piece in pieces {
        // SAFETY: the caller's promise.
        unsafe { copier.checksum(piece.ptr, piece.len) };
    }
    copier.finish()
}

/// CRC-32C of `bytes` as a whole, and of each standard block into `blocks`.
#[must_use]
pub fn checksum_slice_blocks(bytes: &[u8], blocks: &mut Vec<u32>) -> u32 {
    // SAFETY: the slice is readable for its length.
    unsafe { checksum_blocks(bytes.as_ptr(), bytes.len(), BLOCK_BYTES, blocks) }
}
