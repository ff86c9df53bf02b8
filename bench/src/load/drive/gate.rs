//! Where the threads of a load wait for each other, so that none begins before all can. Invariant:
//! opening it lets all waiting threads through.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Closed at first.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    opened: Option<Instant>,
}

impl Gate {
    /// Waits until it is opened; returns when that was.
    pub(super) fn pass(&self) -> Instant {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        loop {
            match state.opened {
                Some(opened) => return opened,
                None => state = self.sleep(state),
            }
        }
    }

    /// Opens it when so many wait; returns when that was.
    pub(super) fn open_for(&self, threads: usize) -> Instant {
        let mut state = self.lock();
        while state.waiting < threads {
            state = self.sleep(state);
        }
        let now = Instant::now();
        state.opened = Some(now);
        self.changed.notify_all();
        now
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let woken = self.changed.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}
