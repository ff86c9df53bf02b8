//! The wish to end early. Invariant: it is only ever set, never taken back; who polls it ends
//! within one operation.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::limits::POLL;
use nix::sys::signal::{SigSet, Signal};

/// A flag that a signal or a failed thread sets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// One that SIGINT and SIGTERM set. To be called before any other thread is started: they
    /// inherit that these signals are blocked. A second signal ends the process at once.
    ///
    /// # Errors
    /// The system refuses to block signals or to start a thread.
    pub(crate) fn on_signals() -> io::Result<Self> {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGTERM);
        signals.add(Signal::SIGINT);
        signals.thread_block()?;
        let stop = Self::default();
        let flag = stop.clone();
        let wait = move || {
            if signals.wait().is_ok() {
                flag.set();
            }
            // With the signals open again in this thread, the next one has its usual effect.
            let _ = signals.thread_unblock();
            loop {
                std::thread::park();
            }
        };
        std::thread::Builder::new().name("perigee-signal".to_owned()).spawn(wait)?;
        Ok(stop)
    }

    /// Asks for the end.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Waits until the end is asked for.
    pub(crate) fn wait(&self) {
        while !self.is_set() {
            std::thread::sleep(POLL);
        }
    }

    /// Waits for a time, or until the end is asked for; tells whether it was.
    pub(crate) fn wait_for(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_set() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(POLL));
        }
        true
    }

    /// Replaces a failure by `Interrupted` if the user has asked the program to end: the failure is
    /// only a consequence.
    ///
    /// # Errors
    /// The failure, or [`BenchError::Interrupted`] in its place.
    pub(crate) fn excuse<T>(&self, outcome: Result<T, BenchError>) -> Result<T, BenchError> {
        match outcome {
            Err(_) if self.is_set() => Err(BenchError::Interrupted),
            outcome => outcome,
        }
    }

    /// Whether the end was asked for.
    #[must_use]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
