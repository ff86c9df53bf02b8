//! Why an extent was refused by the allocator.
//! Invariant: a refused call leaves the allocator as it was.

use crate::extent::Extent;

/// A refused `free` or `rebuild`; the allocator did not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AllocatorError {
    /// The extent has no bytes.
    #[error("The extent at offset {offset} is empty")]
    Empty {
        /// Offset of the extent in bytes.
        offset: u64,
    },
    /// The extent does not lie inside the managed range.
    #[error("{extent} ends beyond the capacity of {capacity} bytes")]
    OutOfRange {
        /// The extent as given.
        extent: Extent,
        /// Size of the managed range in bytes.
        capacity: u64,
    },
    /// Part of the freed extent is free already: a double free or a wrong extent.
    #[error("{extent} overlaps the free {free}")]
    AlreadyFree {
        /// The extent as given.
        extent: Extent,
        /// The free extent that it overlaps.
        free: Extent,
    },
    /// Two extents given to `rebuild` overlap.
    #[error("{second} overlaps {first}")]
    Overlap {
        /// The extent with the lower offset.
        first: Extent,
        /// The extent with the higher offset.
        second: Extent,
    },
}
