//! A distribution by powers of two of nanoseconds, as pages and probes count it; pages count finer,
//! too. Invariant: the finer buckets of a power say where inside of it values lie, never how many
//! there are.

use perigee_activity::{LATENCY_BUCKETS, QUARTERED_POWER, QUARTERED_POWERS};
use perigee_metrics::HistogramTotals;
use perigee_metrics::catalogue::buckets::{LOG2_DURATIONS, QUARTER_DURATIONS};
use serde::{Deserialize, Serialize};

/// Cells of a distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Values.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u64,
    /// Values by power of two: bucket `n` holds `[2^n, 2^(n+1))` ns.
    pub buckets: Vec<u64>,
    /// Values from 2^10 to 2^34 ns again, in four buckets of the same width for each power of two;
    /// empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarters: Vec<u64>,
}

impl Distribution {
    /// From cells.
    pub(crate) fn new(count: u64, sum_ns: u64, buckets: &[u64]) -> Self {
        Self { count, sum_ns, buckets: buckets.to_vec(), quarters: Vec::new() }
    }

    /// The same, with finer buckets.
    pub(crate) fn with_quarters(self, quarters: &[u64]) -> Self {
        Self { quarters: quarters.to_vec(), ..self }
    }

    /// The same without them.
    pub(crate) fn by_powers(&self) -> Self {
        Self::new(self.count, self.sum_ns, &self.buckets)
    }

    /// Counts a value so many times, by its power alone.
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
        add(&mut self.buckets, &other.buckets);
        add(&mut self.quarters, &other.quarters);
    }

    /// Takes the larger of each cell, for readings that raced with their writer.
    pub(crate) fn keep_from_falling(&mut self, before: &Self) {
        self.count = self.count.max(before.count);
        self.sum_ns = self.sum_ns.max(before.sum_ns);
        let cells = self.buckets.iter_mut().zip(&before.buckets);
        for (cell, least) in cells.chain(self.quarters.iter_mut().zip(&before.quarters)) {
            *cell = (*cell).max(*least);
        }
    }

    /// The values that came since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let has_no_quarters = earlier.count > 0 && earlier.quarters.is_empty();
        let quarters = if has_no_quarters { &[][..] } else { &self.quarters };
        Self {
            count: self.count.saturating_sub(earlier.count),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            buckets: difference(&self.buckets, &earlier.buckets),
            quarters: difference(quarters, &earlier.quarters),
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
                return (lower * (1.0 + self.part_below(power, left / count))) as u64;
            }
            left -= count;
        }
        0
    }

    /// How far inside a power of two its values of this share lie: 0 at its lower end, 1 at its
    /// upper one.
    #[expect(clippy::cast_precision_loss, reason = "buckets are coarser than 53 bits")]
    fn part_below(&self, power: usize, share: f64) -> f64 {
        let quarters = self.quarters_of(power);
        let total: f64 = quarters.iter().map(|count| *count as f64).sum();
        let mut left = share * total;
        for (at, count) in quarters.iter().enumerate() {
            let count = *count as f64;
            if count >= left && count > 0.0 {
                return (at as f64 + left / count) / quarters.len() as f64;
            }
            left -= count;
        }
        share
    }

    /// The finer buckets of a power of two; nothing where there are none.
    fn quarters_of(&self, power: usize) -> &[u64] {
        let at = power.checked_sub(QUARTERED_POWER).filter(|at| *at < QUARTERED_POWERS);
        at.and_then(|at| self.quarters.get(4 * at..4 * at + 4)).unwrap_or(&[])
    }

    /// All numbers in a row, without finer buckets.
    pub(crate) fn cells(&self) -> Vec<u64> {
        [&[self.count, self.sum_ns], self.buckets.as_slice()].concat()
    }

    /// The reverse of [`Distribution::cells`].
    pub(crate) fn of_cells(cells: &[u64]) -> Self {
        let number = |index: usize| cells.get(index).copied().unwrap_or(0);
        Self::new(number(0), number(1), cells.get(2..).unwrap_or(&[]))
    }

    /// For the exporter, by powers of two.
    pub(crate) fn totals(&self) -> HistogramTotals {
        HistogramTotals::of(self.counts(LOG2_DURATIONS.bounds, |_| &[]), self.sum_ns)
    }

    /// For the exporter, in four buckets for each power of two.
    pub(crate) fn finer_totals(&self) -> HistogramTotals {
        let counts = self.counts(QUARTER_DURATIONS.bounds, |power| self.quarters_of(power));
        HistogramTotals::of(counts, self.sum_ns)
    }

    /// Values between bounds. What a power has beyond its finer buckets, of readings that raced
    /// with their writer, lies at its upper end.
    fn counts<'a>(&'a self, bounds: &[u64], quarters: impl Fn(usize) -> &'a [u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len() + 1];
        let mut add = |upper: u64, count: u64| {
            let index = bounds.partition_point(|bound| *bound < upper);
            counts[index] = u64::saturating_add(counts[index], count);
        };
        for (power, count) in self.buckets.iter().enumerate() {
            let mut left = *count;
            for (at, quarter) in (1..).zip(quarters(power)) {
                let known = left.min(*quarter);
                add((1 << power) + ((1 << power) / 4) * at, known);
                left -= known;
            }
            add(2u64.checked_shl(power as u32).unwrap_or(u64::MAX), left);
        }
        counts
    }
}

fn add(cells: &mut Vec<u64>, more: &[u64]) {
    if cells.len() < more.len() {
        cells.resize(more.len(), 0);
    }
    for (cell, more) in cells.iter_mut().zip(more) {
        *cell = cell.saturating_add(*more);
    }
}

fn difference(cells: &[u64], before: &[u64]) -> Vec<u64> {
    let before = before.iter().copied().chain(std::iter::repeat(0));
    cells.iter().zip(before).map(|(cell, before)| cell.saturating_sub(before)).collect()
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

    /// One value in the first and nine in the last quarter of 2^20.
    fn with_quarters() -> Distribution {
        let (mut buckets, mut quarters) = (vec![0; 40], vec![0; 4 * QUARTERED_POWERS]);
        buckets[20] = 10;
        let first = 4 * (20 - QUARTERED_POWER);
        (quarters[first], quarters[first + 3]) = (1, 9);
        Distribution::new(10, 10 << 20, &buckets).with_quarters(&quarters)
    }

    #[test]
    fn finer_buckets_say_where_inside_a_power_a_quantile_lies() {
        let finer = with_quarters();
        let power = 1 << 20;
        assert_eq!(finer.quantile(0.1), power + power / 4);
        assert!(finer.quantile(0.2) >= power + 3 * (power / 4), "nothing lies between");
        assert_eq!(finer.quantile(1.0), 2 * power);
        assert_eq!(finer.by_powers().quantile(0.1), power + power / 10);
        let none = finer.since(&finer);
        assert_eq!((none.count, none.quantile(0.5)), (0, 0));
        let mut twice = finer.clone();
        twice.merge(&finer);
        assert_eq!(twice.quantile(0.1), finer.quantile(0.1));
        assert_eq!(twice.since(&finer), finer);
        assert!(twice.since(&finer.by_powers()).quarters.is_empty(), "that is not known");
    }

    #[test]
    fn finer_buckets_never_change_how_many_values_there_are() {
        let mut raced = with_quarters();
        let at = |bound: u64| QUARTER_DURATIONS.bounds.iter().position(|it| *it == bound).unwrap();
        let power = 1 << 20;
        let counts = raced.finer_totals().counts;
        assert_eq!((counts[at(power + power / 4)], counts[at(2 * power)]), (1, 9));
        raced.buckets[20] = 12;
        assert_eq!(raced.finer_totals().counts[at(2 * power)], 11, "the rest lies at the end");
        raced.buckets[20] = 4;
        assert_eq!(raced.finer_totals().counts.iter().sum::<u64>(), 4);
        let older = raced.by_powers();
        assert_eq!(older.finer_totals().counts[at(2 * power)], 4);
        assert_eq!(raced.totals(), older.totals());
    }

    #[test]
    fn cells_keep_everything() {
        let one = Distribution::new(3, 9, &[1, 2]);
        assert_eq!(Distribution::of_cells(&one.cells()), one);
        assert_eq!(Distribution::of_cells(&[]), Distribution::default());
    }
}
