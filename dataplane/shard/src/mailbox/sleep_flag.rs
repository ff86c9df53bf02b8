//! Whether a shard sleeps, so that its bell is rung only then.
//!
//! A sender posts its job before it looks here; a shard says here that it sleeps before it looks
//! for jobs once more. With a fence between the two steps on either side one of them sees the
//! other, and no job waits for the next one. `tests/models` compiles this file with the atomics of
//! loom and plays every order of steps.

use super::atomic::{AtomicBool, Ordering, fence};

#[derive(Debug, Default)]
pub(super) struct SleepFlag(AtomicBool);

impl SleepFlag {
    /// The shard is about to sleep; it must look for work once more afterwards.
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The shard is awake. The acquire makes a sender's write visible before the shard's next
    /// sleep.
    pub(super) fn end(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// Whether the sender of a job that was posted has to ring, which one sender per sleep does. It
    /// writes only if it does: a write that came late could hide the next sleep from its own next
    /// look.
    pub(super) fn must_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed)
            && self.0.compare_exchange(true, false, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
