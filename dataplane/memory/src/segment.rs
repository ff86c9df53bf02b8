//! Segments: memory that a node donates, kept in a memfd so that same-host clients can map it too.
//! Invariant: the memfd is sealed against shrinking before anybody hears of it, so no mapping of it can
//! fault; usable bytes are exactly those asked for, whatever the pages are.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::mapping::{Mapping, place};

mod creation;
mod error;
mod mapped;
mod prefault;
#[cfg(test)]
mod tests;
mod touched;

pub use crate::mapping::Access;
pub use error::{MapError, SegmentError, SegmentWarning};
pub use mapped::MappedSegment;
pub use prefault::PrefaultProgress;

use prefault::Prefault;

/// Which pages a segment is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Ordinary pages, joined by the kernel into huge ones where it can.
    #[default]
    Transparent,
    /// Pages from the hugetlb pool; falls back to `Transparent` with a warning.
    Hugetlb,
}

/// How to make a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentOptions {
    /// Which pages to use.
    pub pages: Pages,
    /// The NUMA node that all pages must come from.
    pub numa_node: Option<u32>,
    /// Touch all pages in the background so that no transfer waits for the kernel to zero them.
    pub prefault: bool,
}

impl Default for SegmentOptions {
    fn default() -> SegmentOptions {
        SegmentOptions {
            pages: Pages::Transparent,
            numa_node: None,
            prefault: true,
        }
    }
}

/// Memory donated by this process.
// Fields drop in this order: the prefault thread must have ended before its pages are unmapped.
#[derive(Debug)]
pub struct Segment {
    prefault: Option<Prefault>,
    mapping: Arc<Mapping>,
    file: OwnedFd,
    bytes: usize,
    warnings: Vec<SegmentWarning>,
}

impl Segment {
    /// Donates `bytes` of zeroed memory. What could not be done as asked but does not matter for
    /// correctness is told by [`Segment::warnings`].
    pub fn create(bytes: u64, options: &SegmentOptions) -> Result<Segment, SegmentError> {
        let creation::Created {
            file,
            mapping,
            mut warnings,
        } = creation::create(bytes, options)?;
        let mapping = Arc::new(mapping);
        let prefault = match options.prefault.then(|| Prefault::start(&mapping)) {
            Some(Ok(prefault)) => Some(prefault),
            Some(Err(source)) => {
                warnings.push(SegmentWarning::NoPrefault { source });
                None
            }
            None => None,
        };
        let bytes = mapping
            .mapped_bytes()
            .min(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(Segment {
            prefault,
            mapping,
            file,
            bytes,
            warnings,
        })
    }

    /// First byte; page-aligned.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// Usable bytes: exactly those asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never true: a segment has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes that are mapped: `len` rounded up to whole pages. For registration with devices.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.mapping.mapped_bytes()
    }

    /// The sealed memfd, to be passed to clients on this host.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Address of `len` bytes at `offset`, if they lie within the segment.
    #[must_use]
    pub fn range(&self, offset: u64, len: u64) -> Option<*mut u8> {
        place(self.bytes, offset, len).map(|offset| self.base().wrapping_add(offset))
    }

    /// What could not be done as asked.
    #[must_use]
    pub fn warnings(&self) -> &[SegmentWarning] {
        &self.warnings
    }

    /// How far the background prefault is; `None` if there is none.
    #[must_use]
    pub fn prefault_progress(&self) -> Option<PrefaultProgress> {
        self.prefault.as_ref().map(Prefault::progress)
    }

    /// Blocks until the prefault has ended, if there is one, and returns its last state.
    pub fn finish_prefault(&mut self) -> Option<PrefaultProgress> {
        let prefault = self.prefault.as_mut()?;
        prefault.join();
        Some(prefault.progress())
    }
}
