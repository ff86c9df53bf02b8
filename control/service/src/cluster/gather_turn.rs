//! Whose turn it is to gather the space of all shards. Invariant: one at a time, and no turn
//! outlasts its end.

/// Longest that one put gathers, after which the next may.
const TURN_MS: u64 = 1_000;

/// Who gathers, and until when at most.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GatherTurn {
    number: u64,
    end_ms: u64,
}

impl GatherTurn {
    /// Takes the turn; its number, or `None` while it is taken.
    pub(super) fn begin(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms < self.end_ms {
            return None;
        }
        self.number += 1;
        self.end_ms = now_ms + TURN_MS;
        Some(self.number)
    }

    /// Gives a turn back, unless it has ended and another one began.
    pub(super) fn end(&mut self, ended: u64) {
        debug_assert!((1..=self.number).contains(&ended), "a turn that ends has begun");
        if self.number == ended {
            self.end_ms = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_free_when_it_was_given_back_or_took_too_long() {
        let mut turn = GatherTurn::default();
        assert_eq!((turn.begin(5), turn.begin(6)), (Some(1), None));
        turn.end(1);
        assert_eq!(turn.begin(6), Some(2));
        assert_eq!(turn.begin(6 + TURN_MS), Some(3), "it took too long");
        turn.end(2);
        assert_eq!(turn.begin(7 + TURN_MS), None, "the late one gives nothing back");
    }
}
