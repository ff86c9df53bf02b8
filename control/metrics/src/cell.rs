//! Numbers that one thread writes and others read. Invariant: a cell has one writing thread,
//! so an addition is a load and a store, never a locked instruction; cells of clients, whose calls
//! come from any thread, are only written by the `_shared` methods.

use crate::exemplar::{BucketExemplars, Exemplar, SharedExemplars};
use crate::family::Buckets;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; call it from the owning thread only, or additions get lost.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Adds from any thread; dearer than [`Counter::add`].
    #[inline]
    pub fn add_shared(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// Reads; any thread.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that is set.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets; the owning thread.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Reads; any thread.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A distribution over fixed buckets.
#[derive(Debug)]
pub struct Histogram {
    buckets: &'static Buckets,
    counts: Box<[Counter]>,
    sum: Counter,
    exemplars: SharedExemplars,
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub fn new(buckets: &'static Buckets) -> Self {
        let counts = (0..=buckets.bounds.len()).map(|_| Counter::default()).collect();
        Self { buckets, counts, sum: Counter::default(), exemplars: SharedExemplars::default() }
    }

    /// Records one value in the unit of the bounds; the owning thread.
    #[inline]
    pub fn observe(&self, value: u64) {
        let index = self.buckets.place(value);
        self.counts[index].add(1);
        self.sum.add(value);
    }

    /// As [`Histogram::observe`], from any thread.
    #[inline]
    pub fn observe_shared(&self, value: u64) {
        let index = self.buckets.place(value);
        self.counts[index].add_shared(1);
        self.sum.add_shared(value);
    }

    /// Shows a request that stands for values of its bucket; any thread.
    pub fn show(&self, exemplar: Exemplar) {
        self.exemplars.put(self.buckets.place(exemplar.value), exemplar);
    }

    /// Adds the numbers of this histogram to `totals`; any thread.
    pub fn add_to(&self, totals: &mut HistogramTotals) {
        totals.counts.resize(self.counts.len(), 0);
        for (total, count) in totals.counts.iter_mut().zip(&self.counts) {
            *total += count.get();
        }
        totals.sum = totals.sum.wrapping_add(self.sum.get());
        self.exemplars.add_to(&mut totals.exemplars);
    }
}

/// Numbers of one histogram summed over its writers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistogramTotals {
    /// Values per bucket, not cumulated; the last is above all bounds. Empty means no value.
    pub counts: Vec<u64>,
    /// Sum of all values in the unit of the bounds.
    pub sum: u64,
    /// Requests that stand for values.
    pub exemplars: BucketExemplars,
}

impl HistogramTotals {
    /// Counts per bucket and their sum.
    #[must_use]
    pub fn of(counts: Vec<u64>, sum: u64) -> Self {
        Self { counts, sum, exemplars: BucketExemplars::default() }
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The upper bound of the bucket in which a part of all values ends, of the last one its lower
    /// bound. `None` without values.
    #[must_use]
    pub fn quantile(&self, buckets: &Buckets, part: f64) -> Option<u64> {
        #[expect(clippy::cast_precision_loss, reason = "an estimate needs no more than 53 bits")]
        let wanted = self.count() as f64 * part;
        let mut seen = 0.0;
        let place = self.counts.iter().position(|count| {
            #[expect(clippy::cast_precision_loss, reason = "as above")]
            let count = *count as f64;
            seen += count;
            count > 0.0 && seen >= wanted
        })?;
        buckets.bounds.get(place).or(buckets.bounds.last()).copied()
    }

    /// Adds the numbers of another writer.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (total, count) in self.counts.iter_mut().zip(&other.counts) {
            *total += count;
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.exemplars.merge(&other.exemplars);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TENS: Buckets = Buckets { bounds: &[10, 20], divisor: 1.0, le_digits: None };

    #[test]
    fn bounds_are_inclusive_and_the_last_bucket_is_open() {
        let histogram = Histogram::new(&TENS);
        for value in [0, 10, 11, 20, 21, 1000] {
            histogram.observe(value);
        }
        let mut totals = HistogramTotals::default();
        histogram.add_to(&mut totals);
        assert_eq!((&totals.counts, totals.sum), (&vec![2, 2, 2], 1062));
        histogram.add_to(&mut totals);
        assert_eq!(totals.counts, [4, 4, 4]);
    }

    #[test]
    fn counters_read_what_was_added() {
        let counter = Counter::default();
        counter.add(2);
        counter.add(3);
        assert_eq!(counter.get(), 5);
    }
}
