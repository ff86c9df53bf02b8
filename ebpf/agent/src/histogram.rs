//! A distribution by powers of two of nanoseconds, as pages and probes count it.

use perigee_activity::LATENCY_BUCKETS;
use perigee_metrics::HistogramTotals;
use perigee_metrics::catalogue::buckets::LOG2_DURATIONS;
use serde::{Deserialize, Serialize};

/// Cells of a distribution: count, sum and buckets in one list, which is what the ledger adds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Values.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u64,
    /// Values by power of two: bucket `n` holds `[2^n, 2^(n+1))` ns.
    pub buckets: Vec<u64>,
}

impl Distribution {
    /// From cells.
    pub(crate) fn new(count: u64, sum_ns: u64, buckets: &[u64]) -> Self {
        Self { count, sum_ns, buckets: buckets.to_vec() }
    }

    /// Counts a value so many times.
    pub(crate) fn add(&mut self, value_ns: u64, times: u64) {
        let power = (value_ns | 1).ilog2() as usize;
        let power = power.min(LATENCY_BUCKETS - 1);
        self.buckets.resize(LATENCY_BUCKETS.max(self.buckets.len()), 0);
        self.count = self.count.saturating_add(times);
        self.sum_ns = self.sum_ns.saturating_add(value_ns.saturating_mul(times));
        self.buckets[power] = self.buckets[power].saturating_add(times);
    }

    /// Adds the values of another one.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (cell, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *cell = cell.saturating_add(*more);
        }
    }

    /// Takes the larger of each cell, for readings that raced with their writer.
    pub(crate) fn keep_from_falling(&mut self, before: &Self) {
        self.count = self.count.max(before.count);
        self.sum_ns = self.sum_ns.max(before.sum_ns);
        for (cell, least) in self.buckets.iter_mut().zip(&before.buckets) {
            *cell = (*cell).max(*least);
        }
    }

    /// The values that came since an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let before = |power: usize| earlier.buckets.get(power).copied().unwrap_or(0);
        let buckets = self.buckets.iter().enumerate();
        let buckets = buckets.map(|(power, count)| count.saturating_sub(before(power)));
        Self {
            count: self.count.saturating_sub(earlier.count),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            buckets: buckets.collect(),
        }
    }

    /// The value that this share of values lies below, in nanoseconds, evenly spread inside a
    /// bucket.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "buckets are coarser than 53 bits"
    )]
    pub fn quantile(&self, share: f64) -> u64 {
        let total: f64 = self.buckets.iter().map(|count| *count as f64).sum();
        let mut left = share * total;
        for (power, count) in self.buckets.iter().enumerate() {
            let count = *count as f64;
            if count >= left && count > 0.0 {
                let lower = (1u64 << power.min(63)) as f64;
                return (lower * (1.0 + left / count)) as u64;
            }
            left -= count;
        }
        0
    }

    /// All numbers in a row.
    pub(crate) fn cells(&self) -> Vec<u64> {
        [&[self.count, self.sum_ns], self.buckets.as_slice()].concat()
    }

    /// The reverse of [`Distribution::cells`].
    pub(crate) fn of_cells(cells: &[u64]) -> Self {
        let number = |index: usize| cells.get(index).copied().unwrap_or(0);
        Self::new(number(0), number(1), cells.get(2..).unwrap_or(&[]))
    }

    /// For the exporter, whose bounds are powers of two as well.
    pub(crate) fn totals(&self) -> HistogramTotals {
        let bounds = LOG2_DURATIONS.bounds;
        let mut counts = vec![0; bounds.len() + 1];
        for (power, count) in self.buckets.iter().enumerate() {
            let upper = 2u64.checked_shl(power as u32).unwrap_or(u64::MAX);
            let index = bounds.partition_point(|bound| *bound < upper);
            counts[index] = u64::saturating_add(counts[index], *count);
        }
        HistogramTotals::of(counts, self.sum_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_falls_into_a_lower_bucket_than_it_had() {
        let mut buckets = vec![0; 40];
        (buckets[0], buckets[12], buckets[39]) = (1, 2, 4);
        let totals = Distribution::new(7, 100, &buckets).totals();
        assert_eq!(totals.counts.iter().sum::<u64>(), 7);
        let index = totals.counts.iter().position(|count| *count == 2).unwrap();
        assert_eq!(LOG2_DURATIONS.bounds[index], 1 << 13);
        assert_eq!(totals.counts.last(), Some(&4));
    }

    #[test]
    fn a_quantile_lies_in_its_bucket_and_counts_only_what_is_new() {
        let mut buckets = vec![0; 40];
        (buckets[10], buckets[20]) = (80, 20);
        let before = Distribution::new(100, 0, &buckets);
        assert_eq!(before.quantile(0.4), 1536);
        assert_eq!(before.quantile(0.9), 1 << 20 | 1 << 19);
        assert_eq!(Distribution::default().quantile(0.5), 0);
        buckets[20] += 50;
        let more = Distribution::new(150, 0, &buckets).since(&before);
        assert_eq!((more.count, more.quantile(0.5)), (50, 1 << 20 | 1 << 19));
    }

    #[test]
    fn cells_keep_everything() {
        let one = Distribution::new(3, 9, &[1, 2]);
        assert_eq!(Distribution::of_cells(&one.cells()), one);
        assert_eq!(Distribution::of_cells(&[]), Distribution::default());
    }
}
