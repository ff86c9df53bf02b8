//! The bounds of the allocator, in one place.
//! Invariant: changing them changes where extents go, never whether an extent that fits is found.

/// Below this size an extent comes from the lowest hole that it fits into. Small objects that stay
/// together leave larger holes to large ones: worth one point of utilisation with log-uniform
/// sizes, measured.
pub(crate) const SMALL_BYTES: u64 = 256 << 10;
/// Holes that are looked at from the bottom for a small extent, before the best fit is taken.
pub(crate) const LOW_HOLES_MAX: usize = 128;
