//! Segments: memory that a node donates, kept in a memfd so that same-host clients can map it too,
//! or a range of a file that its owner lends.
//! Invariant: a memfd is sealed against shrinking before any other process learns of it, so no
//! mapping of it can fault, and no file is handed on; usable bytes are exactly those asked for,
//! whatever the pages are.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use crate::mapping::{Mapping, place};

mod budget;
mod creation;
mod error;
mod file_range;
mod mapped;
mod parts;
mod population;
mod range_lock;
#[cfg(test)]
mod tests;
mod touched;

pub use crate::mapping::Access;
pub use budget::Exhausted;
pub use error::{MapError, SegmentError, SegmentWarning};
pub use mapped::MappedSegment;
pub use population::Populate;

use population::Population;
use range_lock::RangeLock;

/// Which pages a segment is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Ordinary pages, joined by the kernel into huge ones where it can.
    #[default]
    Transparent,
    /// Pages from a hugetlb pool: of this size in bytes, a power of two, or the system's usual one.
    /// Falls back to `Transparent` with a warning.
    Hugetlb(Option<u64>),
}

/// What becomes of a segment for which the container or the host has not enough memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShortagePolicy {
    /// It is an error.
    #[default]
    Refuse,
    /// It gets what is there less a reserve, with a warning.
    Cut,
}

/// How to make a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentOptions {
    /// Which pages to use.
    pub pages: Pages,
    /// The NUMA node that all pages must come from.
    pub numa_node: Option<u32>,
    /// Which pages are made in the background, before they are asked for.
    pub populate: Populate,
    /// What to do without enough memory.
    pub shortage: ShortagePolicy,
}

/// Memory donated by this process.
// Fields drop in this order: the thread that makes pages must have ended before they are unmapped.
#[derive(Debug)]
pub struct Segment {
    population: Population,
    mapping: Arc<Mapping>,
    /// The sealed memfd; none for a range of a file.
    file: Option<OwnedFd>,
    /// Held for a range of a file until it is unmapped.
    _lock: Option<RangeLock>,
    bytes: usize,
    warnings: Vec<SegmentWarning>,
}

impl Segment {
    /// Donates `bytes` of zeroed memory. Requests that could not be met but do not matter for
    /// correctness are listed by [`Segment::warnings`].
    pub fn create(bytes: u64, options: &SegmentOptions) -> Result<Segment, SegmentError> {
        let creation::Created { file, mapping, bytes, reserved, mut warnings } =
            creation::create(bytes, options)?;
        let mapping = Arc::new(mapping);
        let mut population = Population::new(&mapping, reserved);
        if let Err(source) = population.start(options.populate) {
            warnings.push(SegmentWarning::NoThread { source });
        }
        let bytes = mapping.mapped_bytes().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        assert!(bytes > 0, "a segment has at least one byte");
        Ok(Segment { population, mapping, file: Some(file), _lock: None, bytes, warnings })
    }

    /// Donates `bytes` of a file or shared-memory object from `offset` on. Its contents are
    /// overwritten. Only this process maps it: a writer of the file may also cut it, and a cut
    /// file ends the processes that touch what is gone (SIGBUS). The range is locked, so that no
    /// second segment lies over it.
    ///
    /// # Errors
    /// [`SegmentError::File`], [`SegmentError::FileRange`], [`SegmentError::Lent`],
    /// [`SegmentError::NumaNode`].
    pub fn of_file(
        path: &Path,
        offset: u64,
        bytes: u64,
        numa_node: Option<u32>,
    ) -> Result<Segment, SegmentError> {
        let mut warnings = Vec::new();
        let (mapping, lock) = file_range::map(path, offset, bytes, numa_node, &mut warnings)?;
        let mapping = Arc::new(mapping);
        let population = Population::new(&mapping, true);
        let bytes = mapping.mapped_bytes().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        assert!(bytes > 0, "a segment has at least one byte");
        Ok(Segment { population, mapping, file: None, _lock: Some(lock), bytes, warnings })
    }

    /// First byte; page-aligned.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// Usable bytes: exactly those asked for, unless the segment was cut.
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

    /// The sealed memfd, to be passed to clients on this host. A range of a file has none.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
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

    /// Makes the pages of `len` bytes at `offset`, so that this process is charged for them: to be
    /// called before the first write there, also for the first time. Costs a few loads where they
    /// are made already. A range that does not lie within the segment has no pages to be made.
    ///
    /// # Errors
    /// The memory limit of the container or the host is reached.
    pub fn populate(&self, offset: u64, len: u64) -> Result<(), Exhausted> {
        match place(self.bytes, offset, len) {
            Some(offset) => self.population.populate(offset, len as usize),
            None => Ok(()),
        }
    }

    /// Whether all pages of `len` bytes at `offset` are made.
    #[must_use]
    pub fn is_populated(&self, offset: u64, len: u64) -> bool {
        place(self.bytes, offset, len)
            .is_some_and(|offset| self.population.is_populated(offset, len as usize))
    }

    /// Bytes whose pages are made.
    #[must_use]
    pub fn populated_bytes(&self) -> usize {
        self.population.populated_bytes()
    }

    /// Bytes that can be used as things are: those whose pages are made, and those that the
    /// container and the host have memory for.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        self.population.usable_bytes().min(self.bytes as u64)
    }

    /// Ranges that cannot be used as things are: they have no pages, and the container or the host
    /// has too little memory for them. In order; empty where there is memory for the whole segment.
    #[must_use]
    pub fn unbacked(&self) -> Vec<Range<u64>> {
        let end = self.bytes as u64;
        let mut unbacked = self.population.unbacked();
        unbacked.retain_mut(|range| {
            range.end = range.end.min(end);
            range.start < range.end
        });
        unbacked
    }
}
