//! What a client says it holds. Invariant: compared, never believed.

use perigee_allocator::Extent;

/// What a client lends, by its own list.
#[derive(Debug, Clone, Copy)]
pub struct ListedSegments<'a> {
    /// All its segments, those with a running grace aside.
    pub segments: &'a [u128],
    /// For each of them the bytes that its owner has memory for, or nothing if all have all.
    pub usable_bytes: &'a [u64],
    /// What of a segment at a position of the list its owner has no memory for.
    pub unbacked: &'a [(u32, Extent)],
    /// Number of the last mount request that it had begun when it made the list.
    pub mounts: u64,
}
