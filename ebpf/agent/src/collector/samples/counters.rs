//! How much counters grew in a turn. Invariant: what was not there a turn ago has not grown.

use crate::histogram::Distribution;
use std::collections::BTreeMap;

/// Round trips and operations below this many in a turn say nothing.
pub(super) const VALUES_MIN: u64 = 10;

/// Counters of the turn before, and of this one as it is read.
#[derive(Debug, Default)]
pub(super) struct TurnCounters {
    before: SampleCounters,
    now: SampleCounters,
}

#[derive(Debug, Default)]
struct SampleCounters {
    distributions: BTreeMap<String, Distribution>,
    numbers: BTreeMap<String, u64>,
}

impl TurnCounters {
    /// What was read so far is of the turn before.
    pub(super) fn begin(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    pub(super) fn more(&mut self, name: String, now: &Distribution) -> Distribution {
        let before = self.before.distributions.get(&name);
        let more = before.map_or_else(Distribution::default, |before| now.since(before));
        self.now.distributions.insert(name, now.clone());
        more
    }

    /// `None` for what was not there a turn ago.
    pub(super) fn grown(&mut self, name: String, now: u64) -> Option<u64> {
        let before = self.before.numbers.get(&name);
        let grown = before.map(|before| now.saturating_sub(*before));
        self.now.numbers.insert(name, now);
        grown
    }

    /// How much counters grew since they were reported last; that is when the first of
    /// them, which counts exchanges, has grown enough.
    pub(super) fn grown_enough<const N: usize>(
        &mut self,
        name: &str,
        now: [u64; N],
    ) -> Option<[u64; N]> {
        let names: [String; N] = std::array::from_fn(|index| format!("{name}/{index}"));
        let reported = names.each_ref().map(|name| self.before.numbers.get(name).copied());
        let grown: [Option<u64>; N] = std::array::from_fn(|index| {
            reported[index].map(|reported| now[index].saturating_sub(reported))
        });
        let is_enough = grown[0].is_none_or(|exchanges| exchanges >= VALUES_MIN);
        for (index, name) in names.into_iter().enumerate() {
            let mark = reported[index].filter(|_| !is_enough).unwrap_or(now[index]);
            self.now.numbers.insert(name, mark);
        }
        if !is_enough || grown.contains(&None) {
            return None;
        }
        Some(grown.map(Option::unwrap_or_default))
    }
}
