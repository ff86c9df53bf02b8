//! `ChecksumCopier`: one object copied by any number of calls, summed per block and as a whole.
//! Invariant: `filled_bytes` is less than a block between calls; streaming stores are fenced when
//! the copier is dropped, finished or not.

use std::num::NonZeroUsize;

use crate::byte_range::ByteRange;
use crate::checksum::raw_state::RawState;
use crate::checksum::{BlockAppender, crc32c_combine};
use crate::guard::{MemoryGone, guarded};
use crate::kernel::{self, Kernel, KernelWork, RunStart};

use super::both;
use super::work::work_for;

/// Copies one object piece by piece, whatever the borders of pieces, and sums it by blocks.
#[derive(Debug)]
pub struct ChecksumCopier<'blocks> {
    kernel: Kernel,
    work: KernelWork,
    block_bytes: usize,
    appender: BlockAppender,
    /// State of the block being filled.
    state: RawState,
    /// Bytes already in that block.
    filled_bytes: usize,
    /// Checksum of all finished blocks together.
    whole: u32,
    blocks: &'blocks mut Vec<u32>,
    /// What could not be touched; nothing is copied or summed after it.
    gone: Option<MemoryGone>,
}

impl<'blocks> ChecksumCopier<'blocks> {
    /// A copier for one object of about `total_bytes` (it only decides the kind of stores and the
    /// room taken). `blocks` is emptied and then receives a checksum for each `block_bytes`.
    #[must_use]
    pub fn new(
        total_bytes: usize,
        block_bytes: NonZeroUsize,
        blocks: &'blocks mut Vec<u32>,
    ) -> ChecksumCopier<'blocks> {
        blocks.clear();
        blocks.reserve(total_bytes.div_ceil(block_bytes.get()));
        ChecksumCopier {
            kernel: Kernel::best(),
            work: work_for(total_bytes),
            block_bytes: block_bytes.get(),
            appender: BlockAppender::new(block_bytes.get()),
            state: RawState::START,
            filled_bytes: 0,
            whole: 0,
            blocks,
            gone: None,
        }
    }

    /// The same with a given kernel, for tests and measurements; the best one if it is not
    /// available.
    #[must_use]
    pub fn with_kernel(mut self, kernel: Kernel) -> Self {
        if kernel.is_available() {
            self.kernel = kernel;
        }
        self
    }

    /// Copies and sums the next `len` bytes of the object.
    ///
    /// # Safety
    /// As [`super::copy_streaming`].
    pub unsafe fn copy(&mut self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's promises.
        unsafe { self.advance(self.work, dst, src, len) };
    }

    /// Sums the next `len` bytes of the object where they are.
    ///
    /// # Safety
    /// `src` must be of `len` bytes that this process may read as far as they are there.
    pub unsafe fn checksum(&mut self, src: *const u8, len: usize) {
        // SAFETY: the caller's promise; `KernelWork::Sum` ignores the destination.
        unsafe { self.advance(KernelWork::Sum, std::ptr::null_mut(), src, len) };
    }

    /// Closes the last block and returns the checksum of the whole object.
    ///
    /// # Errors
    /// Some of the memory could not be touched: what was copied is not whole.
    pub fn finish(mut self) -> Result<u32, MemoryGone> {
        if let Some(gone) = self.gone {
            return Err(gone);
        }
        debug_assert!(self.filled_bytes < self.block_bytes, "full blocks are closed");
        if self.filled_bytes > 0 {
            let block = self.state.finish();
            self.blocks.push(block);
            self.whole = crc32c_combine(self.whole, block, self.filled_bytes as u64);
        }
        Ok(self.whole)
    }

    /// # Safety
    /// As [`ChecksumCopier::copy`] or [`ChecksumCopier::checksum`].
    unsafe fn advance(&mut self, work: KernelWork, dst: *mut u8, src: *const u8, len: usize) {
        let mut at = 0;
        while at < len && self.gone.is_none() {
            let step = (self.block_bytes - self.filled_bytes).min(len - at);
            debug_assert!(step > 0, "a full block was closed");
            let to = dst.wrapping_add(at);
            let start = if at == 0 { RunStart::Cold } else { RunStart::Continued };
            let (kernel, from, state) = (self.kernel, src.wrapping_add(at), self.state);
            let touched = match work {
                KernelWork::Sum => [ByteRange { ptr: from, len: step }, ByteRange::NOTHING],
                KernelWork::Copy | KernelWork::Stream => both(to, from, step),
            };
            // SAFETY: `at + step <= len`; the kernel is available by construction and holds
            // nothing.
            let ran = unsafe { guarded(touched, || kernel.run(work, to, from, step, start, state)) };
            match ran {
                Ok(state) => self.state = state,
                Err(gone) => {
                    self.gone = Some(gone);
                    return;
                }
            }
            self.filled_bytes += step;
            at += step;
            if self.filled_bytes == self.block_bytes {
                self.close_block();
            }
        }
    }

    fn close_block(&mut self) {
        debug_assert_eq!(self.filled_bytes, self.block_bytes, "only full ones");
        let block = self.state.finish();
        self.blocks.push(block);
        self.whole = self.appender.append(self.whole, block);
        self.state = RawState::START;
        self.filled_bytes = 0;
    }
}

impl Drop for ChecksumCopier<'_> {
    fn drop(&mut self) {
        if self.work == KernelWork::Stream {
            kernel::fence();
        }
    }
}
