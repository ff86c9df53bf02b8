//! Waits that a thread's caller may break off, such as Ctrl-C at a Python prompt.
//! Invariant: a wait asks only between two looks at what it waits for, and only on the thread that
//! allowed it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// Longest a wait that can be broken off goes on without asking.
pub const INTERRUPTION_PAUSE: Duration = Duration::from_millis(250);

type InterruptCheck = fn() -> bool;

/// How the caller of a thread is asked.
#[derive(Clone, Copy, Debug)]
struct CallerCheck {
    ask: InterruptCheck,
    /// When it is asked next; unset before the first look.
    next: Option<Instant>,
    has_broken_off: bool,
}

thread_local! {
    static CALLER: Cell<Option<CallerCheck>> = const { Cell::new(None) };
}

/// While it lives, waits of the thread that made it end early once its question is answered with
/// yes.
#[derive(Debug)]
#[must_use = "waits can be broken off only while it lives"]
pub struct Interruptible {
    before: Option<CallerCheck>,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

/// Lets waits of this thread end early once `ask` says so.
pub fn interruptible(ask: InterruptCheck) -> Interruptible {
    let caller = CallerCheck { ask, next: None, has_broken_off: false };
    Interruptible { before: CALLER.replace(Some(caller)), _thread: PhantomData }
}

/// Whether the caller of this thread may break its waits off.
pub fn is_interruptible() -> bool {
    CALLER.get().is_some()
}

/// Whether the caller of this thread wants its wait to end.
pub fn is_interrupted() -> bool {
    CALLER.get().is_some_and(|caller| (caller.ask)())
}

/// As [`is_interrupted`], for loops that turn often: asks once in [`INTERRUPTION_PAUSE`], and not
/// again after a yes.
pub fn poll_interruption() -> bool {
    let Some(mut caller) = CALLER.get() else {
        return false;
    };
    if caller.has_broken_off {
        return true;
    }
    let now = Instant::now();
    let next = *caller.next.get_or_insert(now + INTERRUPTION_PAUSE);
    if now >= next {
        caller.next = Some(now + INTERRUPTION_PAUSE);
        caller.has_broken_off = (caller.ask)();
    }
    CALLER.set(Some(caller));
    caller.has_broken_off
}

/// How long to wait at a time when `left` is left: in steps where the caller may break off.
pub fn wait_step(left: Duration) -> Duration {
    match CALLER.get() {
        Some(_) => left.min(INTERRUPTION_PAUSE),
        None => left,
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        CALLER.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_that_allows_it_is_interrupted() {
        let long = Duration::from_secs(5);
        assert!(!is_interrupted() && !is_interruptible());
        assert_eq!(wait_step(long), long);
        let allowed = interruptible(|| true);
        assert!(is_interrupted() && is_interruptible());
        assert_eq!(wait_step(long), INTERRUPTION_PAUSE);
        assert!(!std::thread::spawn(is_interrupted).join().unwrap());
        drop(allowed);
        assert!(!is_interrupted());
    }

    #[test]
    fn a_loop_asks_after_a_pause_and_is_interrupted_once() {
        thread_local! {
            static ASKED: Cell<u32> = const { Cell::new(0) };
        }
        assert!(!poll_interruption());
        let _allowed = interruptible(|| {
            ASKED.set(ASKED.get() + 1);
            true
        });
        let begun = Instant::now();
        while !poll_interruption() {
            std::thread::yield_now();
        }
        assert!(begun.elapsed() >= INTERRUPTION_PAUSE);
        assert!(poll_interruption());
        assert_eq!(ASKED.get(), 1);
    }
}
