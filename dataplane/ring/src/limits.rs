//! Bounds of the ring.

/// Submission entries of a shard's ring; the completion queue has twice as many.
pub const RING_ENTRIES: u32 = 512;
/// Most operations in flight on one ring: idle connections each hold one.
pub(crate) const OPERATIONS_MAX: usize = 1 << 20;
