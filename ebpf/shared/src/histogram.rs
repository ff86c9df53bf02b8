//! Histograms with one bucket per power of two.

/// Buckets; number `n` counts values of `[2^n, 2^(n+1))`, the last one everything above.
pub const BUCKETS: usize = 40;

/// Durations in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DurationHistogram {
    /// Values counted.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// Values by power of two.
    pub buckets: [u64; BUCKETS],
}

impl DurationHistogram {
    /// Nothing counted.
    pub const EMPTY: Self = Self { count: 0, sum: 0, buckets: [0; BUCKETS] };

    /// Counts a value.
    #[inline(always)]
    pub fn add(&mut self, value: u64) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(value);
        let index = bucket(value);
        if let Some(cell) = self.buckets.get_mut(index) {
            *cell = cell.wrapping_add(1);
        }
    }

    /// The values that were counted after `base`, an earlier state of this one.
    pub fn since(&self, base: &Self) -> Self {
        let mut rest = *self;
        rest.count = self.count.wrapping_sub(base.count);
        rest.sum = self.sum.wrapping_sub(base.sum);
        for (cell, before) in rest.buckets.iter_mut().zip(base.buckets) {
            *cell = cell.wrapping_sub(before);
        }
        rest
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        self.sum = self.sum.wrapping_add(other.sum);
        for (cell, more) in self.buckets.iter_mut().zip(other.buckets) {
            *cell = cell.wrapping_add(more);
        }
    }
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Bucket of a value. Compares instead of counting zeros, which eBPF cannot.
#[inline(always)]
pub fn bucket(value: u64) -> usize {
    let mut rest = value;
    let mut log2 = 0;
    if rest >= 1 << 32 {
        rest >>= 32;
        log2 += 32;
    }
    if rest >= 1 << 16 {
        rest >>= 16;
        log2 += 16;
    }
    if rest >= 1 << 8 {
        rest >>= 8;
        log2 += 8;
    }
    if rest >= 1 << 4 {
        rest >>= 4;
        log2 += 4;
    }
    if rest >= 1 << 2 {
        rest >>= 2;
        log2 += 2;
    }
    if rest >= 2 {
        log2 += 1;
    }
    if log2 < BUCKETS { log2 } else { BUCKETS - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8].map(bucket), [0, 0, 1, 1, 2, 2, 3]);
        for power in 0..BUCKETS {
            assert_eq!(bucket(1 << power), power);
            assert_eq!(bucket((2 << power) - 1), power);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn merging_keeps_every_value() {
        let (mut one, mut two) = (DurationHistogram::EMPTY, DurationHistogram::EMPTY);
        one.add(100);
        two.add(100);
        two.add(1 << 50);
        one.merge(&two);
        assert_eq!((one.count, one.sum), (3, 200 + (1 << 50)));
        assert_eq!((one.buckets[6], one.buckets[BUCKETS - 1]), (2, 1));
        assert_eq!(one.since(&two).count, 1);
    }
}
