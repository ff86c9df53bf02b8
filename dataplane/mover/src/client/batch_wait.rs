//! How a calling thread waits for a batch that shards or devices move: in steps, between which it
//! looks after them and lets its own caller break off. Invariant: the batch is taken back at most
//! once, and the wait goes on until it has ended, for its memory is in use until then.

use crate::limits::STALL_CHECK;
use perigee_shard::{poll_interruption, wait_step};
use std::time::Duration;

/// A wait for the end of a batch.
#[derive(Debug, Default)]
pub struct BatchWait {
    slept: Duration,
    is_taken_back: bool,
}

impl BatchWait {
    /// Longest sleep before [`BatchWait::look`] is called again.
    pub fn step(&self) -> Duration {
        wait_step(STALL_CHECK)
    }

    /// To be called after each step that did not bring the end. `complain` is to log it if a shard
    /// is stalled; `take_back` has what is under way broken off.
    pub fn look(&mut self, complain: impl FnOnce(), take_back: impl FnOnce()) {
        if !self.is_taken_back && poll_interruption() {
            self.is_taken_back = true;
            take_back();
        }
        self.slept += self.step();
        if self.slept >= STALL_CHECK {
            self.slept = Duration::ZERO;
            complain();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_shard::interruptible;
    use std::cell::Cell;

    #[test]
    fn a_wait_complains_in_long_intervals_and_takes_back_once() {
        let (complaints, taken_back) = (Cell::new(0), Cell::new(0));
        let count = |cell: &Cell<u32>| cell.set(cell.get() + 1);
        let look = |wait: &mut BatchWait| wait.look(|| count(&complaints), || count(&taken_back));
        let mut patient = BatchWait::default();
        assert_eq!(patient.step(), STALL_CHECK);
        (0..3).for_each(|_| look(&mut patient));
        assert_eq!((complaints.take(), taken_back.take()), (3, 0));
        let _allowed = interruptible(|| true);
        let mut wait = BatchWait::default();
        let steps = STALL_CHECK.as_millis() / wait.step().as_millis();
        (0..2 * steps).for_each(|_| look(&mut wait));
        assert_eq!(complaints.get(), 2);
        while taken_back.get() == 0 {
            std::thread::sleep(wait.step());
            look(&mut wait);
        }
        look(&mut wait);
        assert_eq!(taken_back.get(), 1);
    }
}
