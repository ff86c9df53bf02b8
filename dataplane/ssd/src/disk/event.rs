//! What a disk says by itself. Invariant: what is said to be gone cannot come back.

use super::health::DiskState;
use std::sync::Arc;

/// Called on the disk's shard: it may only note or wake, never wait.
pub type OnDiskEvent = Arc<dyn Fn(DiskEvent) + Send + Sync>;

/// A change of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskEvent {
    /// Copies in segments before this one have gone for good.
    Recycled {
        /// The first segment that can be read.
        oldest: u32,
    },
    /// Objects are being read that may be wanted in memory.
    Read,
    /// Its state has changed.
    State(DiskState),
}
