//! Schedules retries of a failed disk. Invariant: the pause grows with each failure, up to a bound.
//! A disk that has served for the longest pause begins with the shortest again.

use crate::limits::{DISK_RETRY_MAX, DISK_RETRY_MIN};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct DiskRetry {
    /// Failures since the disk last served for the longest pause.
    failures: u32,
    /// Time of the next try.
    due: Option<Instant>,
    /// Time at which it began to serve.
    serves: Option<Instant>,
}

impl DiskRetry {
    /// The disk has failed, in service or when it was tried.
    pub(super) fn note_failure(&mut self, now: Instant) {
        let has_served = self.serves.take().map(|since| now.saturating_duration_since(since));
        if has_served.is_some_and(|served| served >= DISK_RETRY_MAX) {
            self.failures = 0;
        }
        self.due = Some(now + pause(self.failures));
        self.failures = self.failures.saturating_add(1);
        self.check();
    }

    /// The disk serves.
    pub(super) fn note_service(&mut self, now: Instant) {
        (self.due, self.serves) = (None, Some(now));
        self.check();
    }

    fn check(&self) {
        let is_one = self.due.is_some() != self.serves.is_some();
        debug_assert!(is_one, "a disk serves, or waits for its next try");
        debug_assert!(self.due.is_none() || self.failures > 0, "only a failure is tried again");
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Time left until the next try; `None` if the disk serves.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(now))
    }
}

fn pause(failures: u32) -> Duration {
    let grown = DISK_RETRY_MIN.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
    let pause = grown.min(DISK_RETRY_MAX);
    debug_assert!(pause >= DISK_RETRY_MIN, "a pause that has grown is not shorter");
    pause
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses after `failures` failures, one behind the other.
    fn pauses(retry: &mut DiskRetry, now: &mut Instant, failures: usize) -> Vec<Duration> {
        let mut pauses = Vec::new();
        for _ in 0..failures {
            retry.note_failure(*now);
            let left = retry.left(*now).unwrap();
            assert!(!retry.is_due(*now + left - Duration::from_millis(1)));
            *now += left;
            assert!(retry.is_due(*now) && retry.left(*now) == Some(Duration::ZERO));
            pauses.push(left);
        }
        pauses
    }

    #[test]
    fn the_pause_doubles_up_to_a_bound() {
        let (mut retry, mut now) = (DiskRetry::default(), Instant::now());
        assert!(!retry.is_due(now) && retry.left(now).is_none(), "nothing has failed");
        let pauses = pauses(&mut retry, &mut now, 70);
        assert_eq!(pauses[0], DISK_RETRY_MIN);
        assert_eq!(pauses[2], DISK_RETRY_MIN * 4);
        assert_eq!(pauses[69], DISK_RETRY_MAX);
        assert!(pauses.is_sorted());
    }

    #[test]
    fn only_a_disk_that_has_served_for_long_begins_with_the_shortest_pause_again() {
        let (mut retry, mut now) = (DiskRetry::default(), Instant::now());
        pauses(&mut retry, &mut now, 3);
        retry.note_service(now);
        assert!(!retry.is_due(now + DISK_RETRY_MAX) && retry.left(now).is_none());
        now += DISK_RETRY_MAX / 2;
        assert_eq!(pauses(&mut retry, &mut now, 1), [DISK_RETRY_MIN * 8], "it comes and goes");
        retry.note_service(now);
        now += DISK_RETRY_MAX;
        assert_eq!(pauses(&mut retry, &mut now, 2), [DISK_RETRY_MIN, DISK_RETRY_MIN * 2]);
    }
}
