//! What the disks of a process get before it ends. Invariant: who waits for it does so until a time
//! that was said, whatever a disk or the master does.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What disks were given, and what they were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedObjects {
    /// Objects that are on a disk now.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that could not be written.
    pub failed: u64,
    /// Objects that were under way or to come when the time was over; about as many.
    pub left: u64,
    /// All that was to be written is there.
    pub is_all: bool,
}

/// What one round of the writer came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedRound {
    /// Objects that were written.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that were not.
    pub failed: u64,
    /// How many may be to come.
    pub left: u64,
    /// None are to come and none are under way.
    pub is_last: bool,
    /// The disks have gone, or the master does not answer: no more can be written.
    pub is_broken: bool,
}

#[derive(Debug, Default)]
pub(super) struct Saving {
    state: Mutex<SavingState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SavingState {
    is_wanted: bool,
    has_ended: bool,
    saved: SavedObjects,
}

impl Saving {
    /// From now on the writer takes all that memory has.
    pub(super) fn ask(&self) {
        self.lock().is_wanted = true;
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.lock().is_wanted
    }

    pub(super) fn note(&self, round: SavedRound) {
        let mut state = self.lock();
        state.saved.objects += round.objects;
        state.saved.bytes += round.bytes;
        state.saved.failed += round.failed;
        if !round.is_broken {
            state.saved.left = round.left;
        }
        state.has_ended |= round.is_last || round.is_broken;
        state.saved.is_all = round.is_last && state.saved.failed == 0;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until all is written, or until then.
    pub(super) fn wait(&self, until: Instant) -> SavedObjects {
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.has_ended || left.is_zero() {
                return state.saved;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, SavingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_wait_ends_with_the_last_round_or_with_its_time() {
        let saving = Saving::default();
        assert!(!saving.is_wanted());
        saving.ask();
        assert!(!saving.wait(Instant::now()).is_all, "nothing was heard yet");
        let round = SavedRound { objects: 2, bytes: 20, left: 3, ..SavedRound::default() };
        saving.note(round);
        let saved = SavedObjects { objects: 2, bytes: 20, failed: 0, left: 3, is_all: false };
        assert_eq!(saving.wait(Instant::now()), saved, "the time is over");
        saving.note(SavedRound { left: 0, is_last: true, ..round });
        let saved = SavedObjects { objects: 4, bytes: 40, failed: 0, left: 0, is_all: true };
        assert_eq!(saving.wait(Instant::now() + Duration::from_secs(60)), saved);
    }

    #[test]
    fn what_failed_or_broke_off_is_not_all() {
        let minute = Instant::now() + Duration::from_secs(60);
        let failed = Saving::default();
        failed.note(SavedRound { failed: 1, is_last: true, ..SavedRound::default() });
        assert!(!failed.wait(minute).is_all);
        let broken = Saving::default();
        broken.note(SavedRound { left: 7, ..SavedRound::default() });
        broken.note(SavedRound { is_broken: true, ..SavedRound::default() });
        let saved = broken.wait(minute);
        assert_eq!((saved.left, saved.is_all), (7, false));
    }
}
