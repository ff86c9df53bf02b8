//! Parts of memory that are lent to one user each. Invariant: the bytes of a slice are its alone
//! until it is dropped.
#![expect(unsafe_code, reason = "it gives access to memory by address")]

use crate::memory::CacheMemory;
use perigee_memory::segment::Exhausted;
use perigee_store::CallerRange;
use std::ops::Range;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// A part of a [`CacheMemory`], lent to one user. It is given back when it is dropped, on whatever
/// thread; a call that was given up drops its slices when it has ended.
#[derive(Debug)]
pub struct MemorySlice {
    memory: CacheMemory,
    range: Range<usize>,
}

/// Why memory is not lent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LendError {
    /// The range is empty, or reaches over the end.
    #[error("{range:?} is no part of {bytes} bytes")]
    Outside {
        /// Range that the caller asked for.
        range: Range<usize>,
        /// What there is.
        bytes: usize,
    },
    /// Part of the range is lent.
    #[error(
        "{range:?} is not free: {other:?} is lent; drop that slice first, or wait for its call"
    )]
    Lent {
        /// Range that the caller asked for.
        range: Range<usize>,
        /// Range that is lent already.
        other: Range<usize>,
    },
    /// The container or the host has no memory left for it.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

impl CacheMemory {
    /// Lends a part of it.
    ///
    /// ```
    /// # use perigee_client::{CacheMemory, LendError};
    /// let memory = CacheMemory::allocate(1 << 20)?;
    /// let mut page = memory.lend(0..4096)?;
    /// page.bytes_mut().expect("it is of this host").fill(7);
    /// assert!(matches!(memory.lend(4095..8192), Err(LendError::Lent { .. })));
    /// drop(page);
    /// assert_eq!(memory.lend(4095..8192)?.bytes().expect("it is of this host")[0], 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The range is empty or not of this memory, part of it is lent, or its pages are not to be
    /// had.
    pub fn lend(&self, range: Range<usize>) -> Result<MemorySlice, LendError> {
        if range.is_empty() || range.end > self.len() {
            return Err(LendError::Outside { range, bytes: self.len() });
        }
        if let Some(segment) = self.segment() {
            segment.populate(range.start as u64, range.len() as u64)?;
        }
        if let Err(other) = self.note_lent(&range) {
            return Err(LendError::Lent { range, other });
        }
        Ok(MemorySlice { memory: self.clone(), range })
    }
}

impl MemorySlice {
    /// Address of its first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address() + self.range.start as u64
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether it has no bytes: never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Its place in its memory.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The bytes; `None` for adopted memory, which the CPU may not be able to read.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.memory.segment()?;
        // SAFETY: the range lies in memory that was zeroed and stays mapped as long as this slice,
        // which alone has it.
        Some(unsafe { from_raw_parts(with_exposed_provenance(self.start()), self.len()) })
    }

    /// The bytes, to be changed; `None` for adopted memory.
    #[must_use]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.memory.segment()?;
        // SAFETY: as in `bytes`, and this slice is borrowed alone.
        Some(unsafe { from_raw_parts_mut(with_exposed_provenance_mut(self.start()), self.len()) })
    }

    /// The bytes as the store takes them: an adopted range is checked before it is touched.
    pub(crate) fn caller_range(&self) -> CallerRange {
        match self.memory.segment() {
            Some(_) => CallerRange::owned(self.start(), self.len()),
            None => CallerRange::named(self.start(), self.len()),
        }
    }

    fn start(&self) -> usize {
        self.address() as usize
    }
}

impl Drop for MemorySlice {
    fn drop(&mut self) {
        self.memory.take_back(self.range.start);
    }
}
