//! Counts of which the log speaks now and then.
//! Invariant: at most one line per pause, and all that is counted is in one of them.

use std::cell::Cell;

/// Milliseconds between two lines.
const PAUSE_MS: u64 = 10_000;

/// The total in the last log line, and the earliest time of the next.
#[derive(Debug, Default)]
pub(super) struct LogPause {
    said: Cell<u64>,
    next_ms: Cell<u64>,
}

impl LogPause {
    /// Growth of a total since the last line; `None` if no line is due.
    pub(super) fn news(&self, total: u64, now_ms: u64) -> Option<u64> {
        debug_assert!(self.said.get() <= total, "a count does not go down");
        let news = total - self.said.get();
        if news == 0 || now_ms < self.next_ms.get() {
            return None;
        }
        self.said.set(total);
        self.next_ms.set(now_ms + PAUSE_MS);
        Some(news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_said_once_and_not_more_often_than_the_pause() {
        let log = LogPause::default();
        assert_eq!(log.news(0, 0), None);
        assert_eq!(log.news(3, 1), Some(3));
        assert_eq!(log.news(5, PAUSE_MS), None);
        assert_eq!(log.news(9, PAUSE_MS + 1), Some(6));
        assert_eq!(log.news(9, 3 * PAUSE_MS), None);
    }
}
