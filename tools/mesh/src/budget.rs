//! Who may measure a server now: one at a time, and no more than a part of its time. Pure but for
//! the times that are passed in.

use crate::limits::{LOAD_PER_WINDOW, LOAD_WINDOW};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What a server has given of its time.
#[derive(Debug, Default)]
pub(crate) struct LoadBudget {
    is_taken: bool,
    given: VecDeque<(Instant, Duration)>,
}

/// Not now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ServerBusy {
    /// Another measurement is under way.
    Taken,
    /// The server has had its load for now; ask again after this time.
    Spent(Duration),
}

impl LoadBudget {
    /// Takes the server for a load of this length.
    pub(crate) fn take(&mut self, now: Instant, load: Duration) -> Result<(), ServerBusy> {
        if self.is_taken {
            return Err(ServerBusy::Taken);
        }
        while self.given.front().is_some_and(|(then, _)| now - *then >= LOAD_WINDOW) {
            self.given.pop_front();
        }
        let given: Duration = self.given.iter().map(|(_, load)| *load).sum();
        if let Some((oldest, _)) = self.given.front()
            && given + load > LOAD_PER_WINDOW
        {
            return Err(ServerBusy::Spent(*oldest + LOAD_WINDOW - now));
        }
        self.is_taken = true;
        self.given.push_back((now, load));
        Ok(())
    }

    /// Another may measure.
    pub(crate) fn give_back(&mut self) {
        self.is_taken = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_measures_at_a_time() {
        let (mut budget, now) = (LoadBudget::default(), Instant::now());
        assert_eq!(budget.take(now, Duration::from_secs(1)), Ok(()));
        assert_eq!(budget.take(now, Duration::from_secs(1)), Err(ServerBusy::Taken));
        budget.give_back();
        assert_eq!(budget.take(now, Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn no_more_than_a_part_of_the_time_is_given() {
        let (mut budget, start) = (LoadBudget::default(), Instant::now());
        let load = Duration::from_secs(2);
        let mut given = Duration::ZERO;
        let at = |second: u64| start + Duration::from_secs(second);
        for second in 0..LOAD_WINDOW.as_secs() {
            match budget.take(at(second), load) {
                Ok(()) => {
                    given += load;
                    budget.give_back();
                }
                Err(busy) => {
                    let wait = LOAD_WINDOW - Duration::from_secs(second);
                    assert_eq!(busy, ServerBusy::Spent(wait));
                }
            }
        }
        assert_eq!(given, LOAD_PER_WINDOW);
        assert_eq!(budget.take(at(LOAD_WINDOW.as_secs()), load), Ok(()));
    }
}
