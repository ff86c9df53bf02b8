//! A sleep of a calling thread until something else is ready, and what of it was the thread's own
//! doing. Invariant: that is never more than the sleep.

use crate::core_waits::core_waited;
use std::time::{Duration, Instant};

/// Sleeps that are shorter are not looked at again: the scheduler's books cost a system call.
const LOOKED_AT: Duration = Duration::from_millis(1);

/// A sleep under way.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredSleep {
    began: Instant,
    /// The thread's waits for a core by then.
    waited: Duration,
    /// When the kernel wakes the thread at the latest.
    limit: Duration,
}

impl MeasuredSleep {
    /// Begins; the thread sleeps no longer than `limit` if it gets a core then.
    pub fn begin(limit: Duration) -> Self {
        Self { began: Instant::now(), waited: core_waited(), limit }
    }

    /// How long the thread was awake and had no core, or could not wake at all because its process
    /// was stopped. Nothing for a short sleep.
    pub fn own_wait(self) -> Duration {
        let slept = self.began.elapsed();
        if slept < LOOKED_AT {
            return Duration::ZERO;
        }
        self.own_wait_of(slept, core_waited())
    }

    fn own_wait_of(self, slept: Duration, waited: Duration) -> Duration {
        let without_core = waited.saturating_sub(self.waited);
        let late = slept.saturating_sub(self.limit);
        without_core.max(late).min(slept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_wait_is_what_the_books_say_or_what_the_sleep_was_too_long() {
        let ms = Duration::from_millis;
        let sleep = MeasuredSleep { began: Instant::now(), waited: ms(7), limit: ms(50) };
        assert_eq!(sleep.own_wait_of(ms(20), ms(7)), Duration::ZERO);
        assert_eq!(sleep.own_wait_of(ms(20), ms(12)), ms(5));
        assert_eq!(sleep.own_wait_of(ms(20), ms(99)), ms(20), "no more than the sleep");
        assert_eq!(sleep.own_wait_of(ms(3_050), ms(7)), ms(3_000), "its process was stopped");
        assert_eq!(sleep.own_wait_of(ms(20), ms(0)), Duration::ZERO, "books that cannot be read");
    }
}
