//! Keeps a replica with bad bytes from filling the log. Invariant: no refusal goes uncounted.

use crate::limits::REFUSAL_LOG_PAUSE;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// When a refusal was logged last, and how many were not since.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<(Option<Duration>, u64)>);

impl Refusals {
    /// Counts a refusal at `now`; if it is to be logged, the number of refusals before it that were
    /// not.
    pub(crate) fn admit(&self, now: Duration) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (logged, unlogged) = &mut *state;
        debug_assert!(logged.is_some() || *unlogged == 0, "the first refusal is logged");
        if logged.is_some_and(|at| now < at + REFUSAL_LOG_PAUSE) {
            *unlogged += 1;
            return None;
        }
        *logged = Some(now);
        Some(std::mem::take(unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refusal_per_pause_is_logged_and_tells_of_the_others() {
        let refusals = Refusals::default();
        let start = Duration::from_secs(100);
        assert_eq!(refusals.admit(start), Some(0));
        assert_eq!(refusals.admit(start), None);
        assert_eq!(refusals.admit(start + REFUSAL_LOG_PAUSE / 2), None);
        assert_eq!(refusals.admit(start + REFUSAL_LOG_PAUSE), Some(2));
    }
}
