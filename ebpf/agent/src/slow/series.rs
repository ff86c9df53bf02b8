//! What one subject showed over time. Invariant: turns in which it was slow never enter the
//! baseline.

use std::collections::VecDeque;

/// Turns that count as the present.
const RECENT_TURNS: usize = 5;
/// Slow turns in a row before a subject is named, if it is a little or a lot slow, and good ones
/// before it is cleared. The host itself may slow one subject a little for some seconds.
const TURNS_TO_BLAME: u32 = 4;
const CLEAR_TURNS_TO_BLAME: u32 = 2;
const TURNS_TO_CLEAR: u32 = 3;
/// Good turns from which on its baseline is known.
const USUAL_TURNS_MIN: usize = 5;
/// Good turns that are remembered: ten minutes.
const USUAL_TURNS_MAX: usize = 600;

/// How a subject did in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grade {
    Good,
    Slow,
    /// Slow by more than noise on the host explains.
    ClearlySlow,
}

#[derive(Debug, Default)]
pub(super) struct SubjectHistory {
    recent: VecDeque<u64>,
    good: VecDeque<u64>,
    /// Its baseline was learned without others to compare with, and may be slow itself.
    is_learned_alone: bool,
    slow_turns: u32,
    clear_turns: u32,
    good_turns: u32,
    slow_since_ms: u64,
    is_blamed: bool,
    silent_turns: u32,
    starts_over: bool,
    /// Turns for which something else explains that it is slow.
    explained_turns: u32,
}

impl SubjectHistory {
    /// It gave no sample in this turn, until [`SubjectHistory::push`].
    pub(super) fn begin_turn(&mut self) {
        self.silent_turns = self.silent_turns.saturating_add(1);
        self.explained_turns = self.explained_turns.saturating_sub(1);
    }

    /// Something else explains in this turn that it is slow.
    pub(super) fn note_explained(&mut self) {
        self.explained_turns = RECENT_TURNS as u32;
    }

    /// Whether something else explained that lately.
    pub(super) fn was_explained(&self) -> bool {
        self.explained_turns > 0
    }

    /// Everything before is forgotten.
    pub(super) fn start_over(&mut self) {
        *self = Self { starts_over: true, ..Self::default() };
    }

    pub(super) fn starts_over(&self) -> bool {
        self.starts_over
    }

    /// Slow in its last turn, if perhaps not for long enough to be named.
    pub(super) fn is_slow(&self) -> bool {
        self.slow_turns > 0 && self.good_turns == 0
    }

    pub(super) fn push(&mut self, value: u64) {
        self.silent_turns = 0;
        if self.recent.len() == RECENT_TURNS {
            self.recent.pop_front();
        }
        self.recent.push_back(value);
    }

    pub(super) fn silent_turns(&self) -> u32 {
        self.silent_turns
    }

    /// What it showed lately; `None` before enough turns.
    pub(super) fn typical(&self) -> Option<u64> {
        let is_full = self.recent.len() == RECENT_TURNS;
        is_full.then(|| median(self.recent.iter().copied().collect()))?
    }

    /// How much longer than usual it took lately.
    pub(super) fn growth(&self) -> Option<u64> {
        Some(self.typical()?.saturating_sub(self.usual().unwrap_or(0)))
    }

    /// The best it showed lately: one good sample clears it, however bad the others were.
    pub(super) fn best(&self) -> Option<u64> {
        let is_full = self.recent.len() == RECENT_TURNS;
        is_full.then(|| self.recent.iter().copied().min())?
    }

    /// What was learned alone is forgotten as soon as there are others.
    pub(super) fn meet(&mut self, has_others: bool) {
        if has_others && self.is_learned_alone {
            self.is_learned_alone = false;
            self.good.clear();
        }
    }

    /// The baseline: the lower quartile of its good turns. Whole minutes in which all were slow
    /// count as good turns too, and must not become the measure.
    pub(super) fn usual(&self) -> Option<u64> {
        let is_known = self.good.len() >= USUAL_TURNS_MIN;
        is_known.then(|| quartile(self.good.iter().copied().collect()))?
    }

    /// Notes the grade of this turn; since when it is named, if it is.
    pub(super) fn settle(&mut self, verdict: Grade, has_others: bool, now_ms: u64) -> Option<u64> {
        if verdict == Grade::Good {
            self.good_turns = self.good_turns.saturating_add(1);
            if self.good_turns >= TURNS_TO_CLEAR {
                self.is_blamed = false;
            }
            if !self.is_blamed {
                (self.slow_turns, self.clear_turns) = (0, 0);
                self.learn(has_others);
            }
        } else {
            if self.slow_turns == 0 {
                self.slow_since_ms = now_ms;
            }
            self.slow_turns = self.slow_turns.saturating_add(1);
            let is_clear = u32::from(verdict == Grade::ClearlySlow);
            self.clear_turns = self.clear_turns.saturating_add(is_clear);
            self.good_turns = 0;
            self.is_blamed |=
                self.slow_turns >= TURNS_TO_BLAME || self.clear_turns >= CLEAR_TURNS_TO_BLAME;
        }
        self.is_blamed.then_some(self.slow_since_ms)
    }

    /// The oldest of the recent turns was good if none has been slow since: a fault is seen some
    /// turns after its beginning.
    fn learn(&mut self, has_others: bool) {
        let is_settled = self.good_turns as usize >= RECENT_TURNS;
        let Some(value) = self.recent.front().filter(|_| is_settled) else {
            return;
        };
        if self.good.is_empty() {
            self.is_learned_alone = !has_others;
        }
        if self.good.len() == USUAL_TURNS_MAX {
            self.good.pop_front();
        }
        self.good.push_back(*value);
    }
}

/// The middle value, the lower one of two.
pub(super) fn median(values: Vec<u64>) -> Option<u64> {
    let middle = values.len().checked_sub(1)? / 2;
    nth(values, middle)
}

/// What a quarter of the values does not exceed.
fn quartile(values: Vec<u64>) -> Option<u64> {
    let quarter = values.len().checked_sub(1)? / 4;
    nth(values, quarter)
}

fn nth(mut values: Vec<u64>, index: usize) -> Option<u64> {
    let (_, value, _) = values.select_nth_unstable(index);
    Some(*value)
}
