//! Waits that a thread's caller may break off, such as Ctrl-C at a Python prompt.
//! Invariant: a wait asks only between two looks at what it waits for, and only on the thread that allowed it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

/// Longest a wait that can be broken off goes on without asking.
pub const INTERRUPTION_PAUSE: Duration = Duration::from_millis(250);

type Ask = fn() -> bool;

thread_local! {
    static ASK: Cell<Option<Ask>> = const { Cell::new(None) };
}

/// While it lives, waits of the thread that made it end early once its question is answered with yes.
#[derive(Debug)]
#[must_use = "waits can be broken off only while it lives"]
pub struct Interruptible {
    before: Option<Ask>,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

/// Lets waits of this thread end early once `ask` says so.
pub fn interruptible(ask: Ask) -> Interruptible {
    Interruptible {
        before: ASK.replace(Some(ask)),
        _thread: PhantomData,
    }
}

/// Whether the caller of this thread wants its wait to end.
pub fn is_interrupted() -> bool {
    ASK.get().is_some_and(|ask| ask())
}

/// How long to wait at a time when `left` is left: in steps where the caller may break off.
pub fn wait_step(left: Duration) -> Duration {
    match ASK.get() {
        Some(_) => left.min(INTERRUPTION_PAUSE),
        None => left,
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        ASK.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_that_allows_it_is_interrupted() {
        let long = Duration::from_secs(5);
        assert!(!is_interrupted());
        assert_eq!(wait_step(long), long);
        let allowed = interruptible(|| true);
        assert!(is_interrupted());
        assert_eq!(wait_step(long), INTERRUPTION_PAUSE);
        assert!(!std::thread::spawn(is_interrupted).join().unwrap());
        drop(allowed);
        assert!(!is_interrupted());
    }
}
