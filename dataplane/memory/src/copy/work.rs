//! How bytes are copied, by their number. Invariant: what the cache cannot hold goes past it.

use crate::kernel::KernelWork;
use crate::limits::STREAM_MIN_BYTES;

/// The kind of stores for a copy of `total_bytes`: long ones must not wash the caches out.
pub(crate) fn work_for(total_bytes: usize) -> KernelWork {
    if total_bytes < STREAM_MIN_BYTES { KernelWork::Copy } else { KernelWork::Stream }
}
