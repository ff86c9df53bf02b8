//! Says to the first shard that another one has something to repair. Invariant: who rings is heard
//! once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a shard has something to repair. All shards of a master share it.
#[derive(Clone, Debug, Default)]
pub(super) struct RepairBell(Arc<AtomicBool>);

impl RepairBell {
    pub(super) fn ring(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}
