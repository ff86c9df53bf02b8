//! What an owner announces of its segment.
//! Invariant: it goes up in offsets, from part to part.

use perigee_allocator::Extent;
use perigee_schemas::record::Record;

/// A part of what an owner announces, in order of offsets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Announcement<'a> {
    /// Commits of keys of this shard.
    pub records: &'a [Record<'a>],
    /// Ranges of this shard's part of the segment that nothing occupies.
    pub free: &'a [Extent],
    /// Removals in earlier lives of the master that its owner has heard of.
    pub removed: &'a [Record<'a>],
    /// Whether that was all.
    pub is_last: bool,
}
