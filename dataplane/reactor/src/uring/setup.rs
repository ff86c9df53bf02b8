//! How a shard's ring is set up, for the ring itself and for the probe before it.

use crate::limits::RING_ENTRIES;
use io_uring::{Builder, IoUring};

/// One thread submits and reaps, and completions are posted when it asks: Linux 6.1.
pub(super) fn builder() -> Builder {
    let mut builder = IoUring::builder();
    builder
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_cqsize(RING_ENTRIES * 2);
    builder
}
