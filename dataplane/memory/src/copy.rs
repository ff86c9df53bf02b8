//! Copies that return the CRC-32C of the bytes they moved, in one pass; the heart of the same-host
//! path. Invariant: when a function here returns, all its stores are visible to every thread that
//! learns of its return.
//!
//! A checksum describes the bytes as they were stored: a source that changes during the copy gives
//! a copy and a checksum that agree with each other. Memory that cannot be touched, since it was
//! unmapped, protected or cut, ends the copy with [`MemoryGone`]; the target is then undefined.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::byte_range::{ByteRange, ByteRangeMut};
use crate::checksum::raw_state::RawState;
use crate::guard::{MemoryGone, guarded};
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
/// # Errors
/// Memory cannot be touched.
///
/// # Safety
/// Both must be memory that this process may use so as far as it is there, and not overlap.
pub unsafe fn copy_streaming(
    dst: *mut u8,
    src: *const u8,
    len: usize,
) -> Result<(), MemoryGone> {
    let copy = || {
        // SAFETY: the caller's promises; the best kernel is available.
        unsafe {
            if work_for(len) == KernelWork::Stream {
                Kernel::best().copy_only(dst, src, len);
            } else {
                dst.copy_from_nonoverlapping(src, len);
            }
        }
    };
    // SAFETY: a copy holds nothing.
    let copied = unsafe { guarded(both(dst, src, len), copy) };
    kernel::fence();
    copied
}

/// Copies a few bytes with ordinary stores.
///
/// # Errors
/// As [`copy_streaming`].
///
/// # Safety
/// As [`copy_streaming`].
pub unsafe fn copy_few(dst: *mut u8, src: *const u8, len: usize) -> Result<(), MemoryGone> {
    // SAFETY: the caller's promises; a copy holds nothing.
    unsafe { guarded(both(dst, src, len), || dst.copy_from_nonoverlapping(src, len)) }
}

/// Loads a word that other processes may be storing.
///
/// # Errors
/// It cannot be read.
///
/// # Safety
/// `at` is aligned, and its word is memory that this process may read as far as it is there; all
/// accesses to it are atomic.
pub unsafe fn load_word(at: *mut u64) -> Result<u64, MemoryGone> {
    // SAFETY: the caller's promise; a load holds nothing.
    unsafe {
        guarded([word(at), ByteRange::NOTHING], || AtomicU64::from_ptr(at).load(Ordering::Acquire))
    }
}

/// Stores a word that other processes may be loading.
///
/// # Errors
/// It cannot be written.
///
/// # Safety
/// As [`load_word`], for writing.
pub unsafe fn store_word(at: *mut u64, value: u64) -> Result<(), MemoryGone> {
    let store = || {
        // SAFETY: the caller's promise.
        unsafe { AtomicU64::from_ptr(at) }.store(value, Ordering::Release);
    };
    // SAFETY: a store holds nothing.
    unsafe { guarded([word(at), ByteRange::NOTHING], store) }
}

fn word(at: *mut u64) -> ByteRange {
    ByteRange { ptr: at.cast(), len: size_of::<u64>() }
}

/// What a copy touches.
fn both(dst: *mut u8, src: *const u8, len: usize) -> [ByteRange; 2] {
    [ByteRange { ptr: dst, len }, ByteRange { ptr: src, len }]
}

/// Copies `len` bytes; fills `blocks` with the CRC-32C of each block of `block_bytes` (the last may
/// be shorter) and returns that of the whole.
///
/// # Errors
/// Memory cannot be touched.
///
/// # Safety
/// As [`copy_streaming`].
pub unsafe fn copy_blocks(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    block_bytes: NonZeroUsize,
    blocks: &mut Vec<u32>,
) -> Result<u32, MemoryGone> {
    let mut copier = ChecksumCopier::new(len, block_bytes, blocks);
    // SAFETY: the caller's promises.
    unsafe { copier.copy(dst, src, len) };
    copier.finish()
}

/// As [`copy_blocks`] without the copy: fills `blocks` and returns the checksum of the whole.
///
/// # Errors
/// Memory cannot be touched.
///
/// # Safety
/// `src` must be of `len` bytes that this process may read as far as they are there.
pub unsafe fn checksum_blocks(
    src: *const u8,
    len: usize,
    block_bytes: NonZeroUsize,
    blocks: &mut Vec<u32>,
) -> Result<u32, MemoryGone> {
    let mut copier = ChecksumCopier::new(len, block_bytes, blocks);
    // SAFETY: the caller's promises.
    unsafe { copier.checksum(src, len) };
    copier.finish()
}

/// Copies `pieces`, one behind the other, to `dst`; block checksums as [`copy_blocks`], with block
/// borders counted along the destination.
///
/// # Errors
/// Memory cannot be touched.
///
/// # Safety
/// As [`copy_streaming`] for every piece; `dst` is as long as all together and overlaps none.
pub unsafe fn gather_blocks(
    dst: *mut u8,
    pieces: &[ByteRange],
    block_bytes: NonZeroUsize,
    blocks: &mut Vec<u32>,
) -> Result<u32, MemoryGone> {
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
/// # Errors
/// Memory cannot be touched.
///
/// # Safety
/// As [`copy_streaming`] for every piece; `src` is as long as all together, and no two overlap.
pub unsafe fn scatter_blocks(
    pieces: &[ByteRangeMut],
    src: *const u8,
    block_bytes: NonZeroUsize,
    blocks: &mut Vec<u32>,
) -> Result<u32, MemoryGone> {
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
/// # Errors
/// Memory cannot be touched.
///
/// # Safety
/// Every piece must be memory that this process may read as far as it is there.
pub unsafe fn checksum_pieces(
    pieces: &[ByteRange],
    block_bytes: NonZeroUsize,
    blocks: &mut Vec<u32>,
) -> Result<u32, MemoryGone> {
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
    let summed = unsafe { checksum_blocks(bytes.as_ptr(), bytes.len(), BLOCK_BYTES, blocks) };
    // A slice is there.
    summed.unwrap_or_default()
}
