//! Calls that run without the interpreter's lock. Invariant: none asks for the lock back after the
//! interpreter began to end, because the interpreter then ends the asking thread in the midst of
//! our frames, which aborts the process.

use crate::limits::RETURN_DEADLINE;
use crate::signals;
use crate::trace::Belonging;
use perigee_shard::interruptible;
use pyo3::Python;
use pyo3::marker::Ungil;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Calls under way without the lock.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// Everything is closed: calls end at once, and keep the lock.
static ENDING: AtomicBool = AtomicBool::new(false);
/// The process that loaded the module; threads of a parent do not come back in its child.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// Between two looks at exit.
const PAUSE: Duration = Duration::from_millis(1);

/// Counts a call until it has the lock for good, also when it panics.
pub(crate) struct GilRelease;

impl GilRelease {
    /// Before the lock is or may be given up; `None` if it must not be any more.
    pub(crate) fn begin() -> Option<Self> {
        if ENDING.load(Ordering::SeqCst) {
            return None;
        }
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Some(Self)
    }
}

impl Drop for GilRelease {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// To be called when the module is loaded.
pub(crate) fn begin() {
    PROCESS.get_or_init(std::process::id);
}

/// Runs `work` without the interpreter's lock.
pub(crate) fn without_gil<T: Ungil>(py: Python<'_>, work: impl FnOnce() -> T + Ungil) -> T {
    match GilRelease::begin() {
        Some(_absence) => {
            let belonging = Belonging::begin(py);
            let allowed = interruptible(|| !is_ending() && signals::has_raised());
            let result = py.detach(work);
            drop(allowed);
            drop(belonging);
            signals::raise_after_return();
            result
        }
        None => work(),
    }
}

/// Whether everything has been closed because the interpreter ends.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

/// Waits until every call is back, at most [`RETURN_DEADLINE`]; what they wait for has been closed.
pub(crate) fn end(py: Python<'_>) {
    ENDING.store(true, Ordering::SeqCst);
    let end = Instant::now() + RETURN_DEADLINE;
    let is_ours = PROCESS.get() == Some(&std::process::id());
    while is_ours && RUNNING.load(Ordering::SeqCst) > 0 && Instant::now() < end {
        py.detach(|| std::thread::sleep(PAUSE));
    }
}
