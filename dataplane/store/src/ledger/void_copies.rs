//! Copies on disks that the master has said are void: what was removed or replaced, in the life of
//! the master that said so.
//! Invariant: a copy that was heard of is not announced to any later life, as long as this process
//! lives.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Copies that are remembered. With more of them the oldest are forgotten.
const REMEMBERED_MAX: usize = 1 << 20;

/// Generations of void copies, shared by the ledger, which hears of them, and the disks.
#[derive(Clone, Debug, Default)]
pub struct VoidCopies(Arc<Mutex<BTreeSet<u64>>>);

impl VoidCopies {
    pub(super) fn note(&self, generation: u64) {
        let mut heard = self.lock();
        heard.insert(generation);
        if heard.len() > REMEMBERED_MAX {
            heard.pop_first();
        }
        debug_assert!(heard.len() <= REMEMBERED_MAX, "one comes, and one goes");
    }

    /// Whether the copy of a generation is void.
    pub fn has(&self, generation: u64) -> bool {
        self.lock().contains(&generation)
    }

    /// The disk has made sure that a copy never comes back.
    pub fn forget(&self, generation: u64) {
        self.lock().remove(&generation);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
