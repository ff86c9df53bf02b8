//! For how long exchanges of our processes have been waiting for an answer.
//!
//! Turns are counted, not time: clocks of processes may be set. Invariant: a wait counts as silent
//! only after turns in which it stayed the same one.

use perigee_activity::LinkWait;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Turns after which an exchange of which it is not known whether bytes move counts as silent: it
/// may be a long one.
const LONG_TURNS: u64 = 4;

/// Waits that are under way, by page and place in it.
#[derive(Debug, Default)]
pub(super) struct Waits {
    known: BTreeMap<(PathBuf, usize), KnownWait>,
}

#[derive(Clone, Copy, Debug)]
struct KnownWait {
    wait: LinkWait,
    turns: u64,
    is_there: bool,
}

impl Waits {
    /// Takes the wait of a connection in this turn; for how many turns nothing has moved.
    pub(super) fn see(&mut self, page: &Path, place: usize, wait: Option<LinkWait>) -> u64 {
        let Some(wait) = wait else {
            return 0;
        };
        let begun = KnownWait { wait, turns: 0, is_there: true };
        let waiting = self.known.entry((page.to_owned(), place)).or_insert(begun);
        if waiting.wait == wait {
            (waiting.turns, waiting.is_there) = (waiting.turns + 1, true);
        } else {
            *waiting = KnownWait { turns: 1, ..begun };
        }
        match wait.is_silent {
            true => waiting.turns,
            false => waiting.turns.saturating_sub(LONG_TURNS),
        }
    }

    /// Forgets those that were over in this turn.
    pub(super) fn end_turn(&mut self) {
        self.known.retain(|_, waiting| std::mem::take(&mut waiting.is_there));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(waits: &mut Waits, wait: Option<(u64, bool)>) -> u64 {
        let wait = wait.map(|(number, is_silent)| LinkWait { number, is_silent });
        let turns = waits.see(Path::new("/page"), 3, wait);
        waits.end_turn();
        turns
    }

    #[test]
    fn only_a_wait_that_stays_the_same_grows() {
        let mut waits = Waits::default();
        let seen = [Some((1, true)), Some((1, true)), Some((2, true)), None, Some((2, true))];
        assert_eq!(seen.map(|wait| turn(&mut waits, wait)), [1, 2, 1, 0, 1]);
    }

    #[test]
    fn an_exchange_that_may_be_a_long_one_counts_later() {
        let mut waits = Waits::default();
        let turns: Vec<u64> = (0..6).map(|_| turn(&mut waits, Some((9, false)))).collect();
        assert_eq!(turns, [0, 0, 0, 0, 1, 2]);
    }
}
