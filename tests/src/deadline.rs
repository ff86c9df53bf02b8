//! Waiting for a condition with an end.
//! Invariant: a condition that never comes true fails the test with its name, it never hangs it.

use std::time::{Duration, Instant};

use crate::limits::POLL_PAUSE;

/// Whether `condition` comes true within `limit`.
pub fn comes_true(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(POLL_PAUSE);
    }
}

/// Fails the test unless `condition` comes true within `limit`.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, condition: impl FnMut() -> bool) {
    assert!(comes_true(limit, condition), "not within {limit:?}: {what}");
}

/// Runs one call and fails the test if it took longer than `limit`.
#[track_caller]
pub fn within<T>(what: &str, limit: Duration, call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = call();
    let taken = start.elapsed();
    assert!(taken <= limit, "{what} took {taken:?}, more than {limit:?}");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_asked_until_it_holds() {
        let mut asked = 0;
        assert!(comes_true(Duration::from_secs(60), || {
            asked += 1;
            asked == 3
        }));
        assert_eq!(asked, 3);
    }

    #[test]
    fn a_condition_that_never_holds_is_asked_at_least_once() {
        let mut asked = 0;
        assert!(!comes_true(Duration::ZERO, || {
            asked += 1;
            false
        }));
        assert_eq!(asked, 1);
    }
}
