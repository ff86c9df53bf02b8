//! Tells the first shard of a master that another shard has something to repair. Invariant: each
//! notice is taken once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a shard has something to repair. All shards of a master share it.
#[derive(Clone, Debug, Default)]
pub(super) struct RepairNotify(Arc<AtomicBool>);

impl RepairNotify {
    pub(super) fn notify(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}
