//! The only source of chance in a run. Invariant: the same seed and the same questions give the
//! same answers.

use std::cell::Cell;
use std::time::Duration;

/// A generator of numbers (SplitMix64).
#[derive(Debug)]
pub struct Random(Cell<u64>);

impl Random {
    /// A generator that begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    /// A generator of its own, begun by the next number.
    pub(crate) fn fork(&self) -> Self {
        Self::new(self.next())
    }

    /// Any number.
    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        mix(state)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `odds` times.
    pub fn one_in(&self, odds: u64) -> bool {
        self.below(odds) == 0
    }

    /// A length from `low` to `high`, small ones as likely as large ones.
    pub fn length(&self, low: Duration, high: Duration) -> Duration {
        let (low, high) = (low.as_nanos() as u64, high.as_nanos() as u64);
        let ceiling = low + ((high - low) >> self.below(8));
        Duration::from_nanos(self.between(low, ceiling))
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }

    /// So many bytes that differ from seed to seed.
    pub fn bytes(&self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

/// Spreads every bit of a number over all others.
pub(crate) fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
