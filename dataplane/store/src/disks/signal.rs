//! What the threads of the disks wait for. Invariant: a notice between two looks is not lost.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct DiskSignal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    /// Counts calls of `notify`.
    notices: u64,
    is_over: bool,
}

impl DiskSignal {
    /// There is work, or something about a disk has changed.
    pub(super) fn notify(&self) {
        let mut state = self.lock();
        state.notices = state.notices.wrapping_add(1);
        drop(state);
        self.changed.notify_all();
    }

    /// The client ends.
    pub(super) fn stop(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Waits for a notice after those that were `heard`, no longer than `pause`; false when the
    /// client ends.
    pub(super) fn wait(&self, heard: &mut u64, pause: Duration) -> bool {
        let is_quiet = |state: &mut SignalState| state.notices == *heard && !state.is_over;
        let waited = self.changed.wait_timeout_while(self.lock(), pause, is_quiet);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        debug_assert!(*heard <= state.notices, "no more notices were heard than there were");
        *heard = state.notices;
        !state.is_over
    }

    fn lock(&self) -> MutexGuard<'_, SignalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_notice_before_the_wait_and_the_end_are_heard_at_once() {
        let signal = DiskSignal::default();
        let mut heard = 0;
        signal.notify();
        assert!(signal.wait(&mut heard, LONG));
        assert_eq!(heard, 1);
        assert!(signal.wait(&mut heard, Duration::ZERO), "nothing new, and not the end");
        signal.stop();
        assert!(!signal.wait(&mut heard, LONG));
    }
}
