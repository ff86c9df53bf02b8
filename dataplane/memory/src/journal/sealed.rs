//! The memory of a journal in a sealed memfd, which another process can open after this one.
//! Invariant: the file never changes its length, and only its one owner maps it for writing.

use super::log_memory::LogMemory;
use crate::limits::{JOURNAL_BYTES_MAX, JOURNAL_HEADER_BYTES, JOURNAL_STEP_BYTES};
use crate::mapping::{Access, Mapping, page_bytes};
use crate::memfd;
use nix::fcntl::{FallocateFlags, fallocate};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of a journal. Pages that were never written cost nothing.
#[derive(Debug)]
pub struct SealedLog {
    file: OwnedFd,
    mapping: Mapping,
    /// The range that was made sure of last and not cleared since.
    reserved: (usize, usize),
}

impl SealedLog {
    /// Memory for a journal of records of `region_bytes` bytes together.
    ///
    /// # Errors
    /// The memory file cannot be made, or it would be too long.
    pub fn create(region_bytes: usize) -> io::Result<Self> {
        if region_bytes > JOURNAL_BYTES_MAX {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let region_bytes = region_bytes.max(1).next_multiple_of(page_bytes());
        let bytes = JOURNAL_HEADER_BYTES + 2 * region_bytes;
        let (file, mapping) = memfd::sealed(c"perigee-journal", bytes as u64, page_bytes(), 0)?;
        Ok(Self { file, mapping, reserved: (0, 0) })
    }

    /// Memory that another process has left.
    ///
    /// # Errors
    /// The file cannot be mapped, is longer than a journal, or may become shorter.
    pub fn adopt(file: OwnedFd) -> io::Result<Self> {
        let bytes = memfd::sealed_bytes(&file)?;
        if bytes > JOURNAL_HEADER_BYTES + 2 * JOURNAL_BYTES_MAX || bytes % page_bytes() != 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mapping = Mapping::shared(file.as_fd(), bytes, Access::ReadWrite)?;
        Ok(Self { file, mapping, reserved: (0, 0) })
    }

    /// The file, to be handed to the process that comes after this one.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl LogMemory for SealedLog {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable for its length while `self` lives, and its one owner
        // writes it only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.mapping.base(), self.mapping.mapped_bytes()) }
    }

    /// A page of a memory file that cannot be had is a signal at the store, and an error here.
    fn reserve(&mut self, start: usize, end: usize) -> io::Result<()> {
        if self.reserved.0 <= start && end <= self.reserved.1 {
            return Ok(());
        }
        let from = start - start % page_bytes();
        let to = end.next_multiple_of(JOURNAL_STEP_BYTES).min(self.mapping.mapped_bytes());
        fallocate(&self.file, FallocateFlags::empty(), from as i64, (to - from) as i64)?;
        self.reserved = (from, to);
        Ok(())
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(self.reserved.0 <= at && at + bytes.len() <= self.reserved.1, "reserved before");
        // SAFETY: the range lies in the mapping, because what is reserved does, and nothing else
        // refers to it during `&mut self`.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.mapping.base().add(at), bytes.len());
        }
    }

    fn store(&mut self, at: usize, word: u64) {
        assert!(at.is_multiple_of(8) && at + 8 <= JOURNAL_HEADER_BYTES, "a word of the header");
        // SAFETY: the word lies in the header, which is mapped, aligned, and made sure of by the
        // first reservation; it is only ever written here.
        let place = unsafe { AtomicU64::from_ptr(self.mapping.base().add(at).cast()) };
        place.store(word.to_le(), Ordering::Release);
    }

    fn clear(&mut self, start: usize, end: usize) -> io::Result<()> {
        if start < end {
            let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            fallocate(&self.file, flags, start as i64, (end - start) as i64)?;
            if start < self.reserved.1 && self.reserved.0 < end {
                self.reserved = (0, 0);
            }
        }
        Ok(())
    }
}
