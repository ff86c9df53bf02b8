//! Bytes that may be lent: segments, host buffers, registered regions, and the copies between them.
//! Invariant: no address leaves this crate without a bounds check against the mapping it lies in,
//! and no copy ends before its streaming stores are fenced. Copies and sums of memory that is not
//! ours end with [`MemoryGone`] where it cannot be touched.

mod byte_range;
pub mod checksum;
pub mod copy;
mod guard;
pub mod host;
pub mod journal;
pub mod kernel;
pub mod limits;
mod mapping;
mod memfd;
mod meminfo;
pub mod memlock;
mod numa;
pub mod reachable;
pub mod regions;
pub mod rendezvous;
pub mod segment;
pub mod shared;
pub mod size;

pub use byte_range::{ByteRange, ByteRangeMut};
pub use checksum::{crc32c, crc32c_combine};
pub use copy::ChecksumCopier;
pub use guard::MemoryGone;
pub use host::HostBuffer;
pub use regions::RegisteredRegions;
pub use segment::{MappedSegment, Segment};
