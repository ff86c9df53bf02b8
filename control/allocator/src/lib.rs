//! Best-fit allocator of byte ranges in a segment's share, kept outside the memory it manages.
//! Invariant: the free extents are disjoint, never adjacent (always merged) and sum to capacity -
//! used.
#![forbid(unsafe_code)]

mod error;
mod extent;
mod limits;
mod offset;

pub use error::AllocatorError;
pub use extent::Extent;
pub use offset::OffsetAllocator;
