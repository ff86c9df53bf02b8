//! How much is written about segments that come and go: a peer that mounts and unmounts in a loop must not fill the disk.
//! Invariant: what was left out is counted and told with the next line.

use std::cell::Cell;

/// Lines that may come at once...
const BURST: u64 = 1024;
/// ... and each further one after so many milliseconds.
const LINE_MS: u64 = 50;

/// The budget of one shard.
#[derive(Debug, Default)]
pub(crate) struct LogBudget {
    /// Until when the lines of now are paid for.
    paid_until_ms: Cell<u64>,
    left_out: Cell<u64>,
}

impl LogBudget {
    /// Whether a line may be written now; if so, how many were left out before it.
    pub(crate) fn line(&self, now_ms: u64) -> Option<u64> {
        let paid_ms = self.paid_until_ms.get().max(now_ms) + LINE_MS;
        if paid_ms > now_ms + BURST * LINE_MS {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.paid_until_ms.set(paid_ms);
        Some(self.left_out.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_written_and_a_flood_is_counted() {
        let budget = LogBudget::default();
        let lines = (0..10_000).filter(|_| budget.line(5).is_some()).count() as u64;
        assert_eq!(lines, BURST);
        assert_eq!(budget.line(5 + LINE_MS), Some(10_000 - BURST));
        assert_eq!(budget.line(5 + LINE_MS), None);
        assert_eq!(budget.line(5 + 3 * LINE_MS), Some(1));
    }
}
