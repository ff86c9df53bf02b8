//! What waits for a consumer, and whether one wants more of it; without one a shard adds nothing.
//! Invariant: if an event was not wanted, the next consumer that begins to listen learns that some
//! were missed, and gets none that are older.
//!
//! `tests/models` compiles this file with the types of loom and plays every order of steps.

use super::sync::{AtomicU8, Mutex, MutexGuard, Ordering};
use std::sync::PoisonError;

/// A consumer listens.
const WANTED: u8 = 0;
/// No consumer listens, and nothing has happened since.
const UNWANTED: u8 = 1;
/// No consumer listens, and something has happened.
const MISSED: u8 = 2;

/// Set by the publisher's thread, looked at by the shard's; both reach what waits.
pub(super) struct Attention<W> {
    state: AtomicU8,
    waiting: Mutex<W>,
}

impl<W: Default> Attention<W> {
    /// A consumer listens, and nothing waits.
    pub(super) fn new() -> Self {
        Self { state: AtomicU8::new(WANTED), waiting: Mutex::new(W::default()) }
    }

    /// Whether the event that comes next is wanted. If not, it is missed.
    pub(super) fn is_wanted(&self) -> bool {
        match self.state.load(Ordering::Acquire) {
            WANTED => true,
            MISSED => false,
            _ => {
                let missed = self.state.compare_exchange(
                    UNWANTED,
                    MISSED,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
                missed == Err(WANTED)
            }
        }
    }

    /// A consumer listens from now on. Whether events were missed before: then those that were
    /// older and still waited are gone as well.
    pub(super) fn begin(&self) -> bool {
        // The shard cannot add what is wanted from now on before the older ones are gone.
        let mut waiting = self.waiting();
        let has_missed = self.state.swap(WANTED, Ordering::AcqRel) == MISSED;
        if has_missed {
            *waiting = W::default();
        }
        has_missed
    }

    /// No consumer listens any more.
    pub(super) fn end(&self) {
        // It stays as it is where none has listened before.
        let _ = self.state.compare_exchange(WANTED, UNWANTED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// What waits.
    pub(super) fn waiting(&self) -> MutexGuard<'_, W> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
