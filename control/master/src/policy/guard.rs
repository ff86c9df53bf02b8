//! Whether the learned order loses to the order of last use, and how long it is then not followed.
//! Invariant: each failure makes the next pause longer, until the learned order has won again.

use crate::limits::{GUARD_DEVIATIONS, GUARD_PAUSE_GROWTH, GUARD_PAUSE_MAX, GUARD_ROOM_MIN};

/// Hits of a sample of the keys, in the shard and in a least recently used cache.
#[derive(Debug)]
pub(super) struct LruGuard {
    call: u64,
    /// Lead of the shard within this call, and before, and the sum of its squares by call.
    of_call: f64,
    lead: f64,
    squares: f64,
    /// Accesses of the sample until the learned order is followed again.
    pause: u64,
    /// How long the next pause is, in rooms of the sample.
    rooms: u64,
}

impl LruGuard {
    pub(super) fn new() -> Self {
        let (of_call, lead, squares) = (0.0, 0.0, 0.0);
        Self { call: 0, of_call, lead, squares, pause: 0, rooms: GUARD_PAUSE_GROWTH }
    }

    /// Whether the learned order is to be followed.
    pub(super) fn allows(&self) -> bool {
        self.pause == 0
    }

    /// Notes whether the shard had a key, and whether a least recently used cache would have.
    /// `room` is how many keys of the sample the shard has.
    pub(super) fn note(&mut self, hit: bool, lru_hit: bool, call: u64, room: usize) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        if self.call != call {
            self.end_call(call, room.max(GUARD_ROOM_MIN) as u64);
        }
        self.of_call += f64::from(u8::from(hit)) - f64::from(u8::from(lru_hit));
    }

    fn end_call(&mut self, call: u64, room: u64) {
        self.lead += self.of_call;
        self.squares += self.of_call * self.of_call;
        (self.call, self.of_call) = (call, 0.0);
        let deviation = self.squares.sqrt();
        if self.squares > 1.0 && self.lead < -GUARD_DEVIATIONS * deviation {
            self.pause = self.rooms * room;
            self.rooms = (self.rooms * GUARD_PAUSE_GROWTH).min(GUARD_PAUSE_MAX);
            (self.lead, self.squares) = (0.0, 0.0);
        } else if self.squares > 1.0 && self.lead > 2.0 * GUARD_DEVIATIONS * deviation {
            self.rooms = GUARD_PAUSE_GROWTH;
        }
        if self.squares > room as f64 {
            // Load changes, so old outcomes count less.
            (self.lead, self.squares) = (self.lead / 2.0, self.squares / 2.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes outcomes, one a call, and says whether the learned order is allowed at the end.
    fn play(guard: &mut LruGuard, outcomes: impl Iterator<Item = (bool, bool)>) -> bool {
        for (hit, lru_hit) in outcomes {
            guard.note(hit, lru_hit, guard.call + 1, 64);
        }
        guard.allows()
    }

    #[test]
    fn an_order_that_loses_is_left_for_longer_each_time() {
        let mut guard = LruGuard::new();
        let mut pauses = Vec::new();
        for _ in 0..3 {
            while guard.allows() {
                play(&mut guard, std::iter::once((false, true)));
            }
            pauses.push(guard.pause);
            let pause = guard.pause as usize;
            assert!(play(&mut guard, std::iter::repeat_n((false, true), pause)));
        }
        assert!(pauses.is_sorted() && pauses[2] > 4 * pauses[0], "{pauses:?}");
    }

    #[test]
    fn an_order_that_wins_or_does_as_well_stays() {
        let mut guard = LruGuard::new();
        assert!(play(&mut guard, (0..10_000).map(|at| (at % 3 != 0, at % 5 == 0))));
        let mut guard = LruGuard::new();
        assert!(play(&mut guard, (0..10_000).map(|at| (at % 2 == 0, at % 2 == 0))));
    }
}
