//! Places to copy from and to, and the middle of many measurements.
//! Invariant: random numbers come from fixed seeds, so two runs touch the same places in the same
//! order.

/// A xorshift generator: places must differ, not be unpredictable.
#[derive(Debug)]
pub(crate) struct Places(u64);

impl Places {
    /// A generator; the seed must not be 0.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An offset for `len` bytes in `room` bytes, a multiple of 4 KiB.
    pub(crate) fn offset(&mut self, len: usize, room: usize) -> usize {
        self.below(((room - len) / 4096 + 1) as u64) as usize * 4096
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// Median of values, with their range.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    /// The middle value; the upper of the two middle ones.
    pub(crate) median: f64,
    /// The smallest.
    pub(crate) low: f64,
    /// The largest.
    pub(crate) high: f64,
}

impl Spread {
    /// Of values in any order; all 0 if there are none.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Self {
            median: sorted.get(sorted.len() / 2).copied().unwrap_or(0.0),
            low: sorted.first().copied().unwrap_or(0.0),
            high: sorted.last().copied().unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_values_lies_in_their_middle() {
        let spread = Spread::of(&[3.0, 1.0, 9.0]);
        assert_eq!((spread.median, spread.low, spread.high), (3.0, 1.0, 9.0));
        assert_eq!(Spread::of(&[]).median, 0.0);
    }

    #[test]
    fn places_leave_room_for_the_block() {
        let mut places = Places::new(1);
        for _ in 0..1000 {
            let offset = places.offset(65_536, 1 << 20);
            assert!(offset + 65_536 <= 1 << 20 && offset.is_multiple_of(4096));
        }
        assert_eq!(places.offset(1 << 20, 1 << 20), 0);
    }
}
