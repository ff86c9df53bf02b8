//! Latencies of one row. Invariant: a summary is made from an HDR histogram with three significant
//! digits, so a percentile is never off by more than a thousandth.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::limits::{LATENCY_DIGITS, LATENCY_NS_MAX};

/// Latencies while they are taken.
#[derive(Debug, Clone)]
pub(crate) struct Recorder(Histogram<u64>);

impl Default for Recorder {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS);
        Self(histogram.expect("the bounds are constants that the histogram accepts"))
    }
}

impl Recorder {
    /// Takes one latency.
    pub(crate) fn record(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos.max(1));
    }

    /// Takes all latencies of another one.
    pub(crate) fn add(&mut self, other: &Self) {
        // Both have the same bounds, so nothing can be out of range.
        let _ = self.0.add(&other.0);
    }

    /// All of them, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.0.mean() * self.0.len() as f64 / 1e9
    }

    /// What was taken; `None` if nothing was.
    #[must_use]
    pub(crate) fn summary(&self) -> Option<Latency> {
        let of = |share: f64| self.0.value_at_quantile(share);
        (!self.0.is_empty()).then(|| Latency {
            count: self.0.len(),
            min_ns: self.0.min(),
            max_ns: self.0.max(),
            mean_ns: self.0.mean(),
            stdev_ns: self.0.stdev(),
            p50_ns: of(0.5),
            p75_ns: of(0.75),
            p90_ns: of(0.9),
            p95_ns: of(0.95),
            p99_ns: of(0.99),
            p99_9_ns: of(0.999),
            p99_99_ns: of(0.9999),
        })
    }
}

/// Latencies of one row, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Latency {
    /// Operations that were timed.
    pub(crate) count: u64,
    /// The shortest.
    pub(crate) min_ns: u64,
    /// The longest.
    pub(crate) max_ns: u64,
    pub(crate) mean_ns: f64,
    /// The standard deviation.
    pub(crate) stdev_ns: f64,
    /// The median.
    pub(crate) p50_ns: u64,
    /// 75 % took no longer.
    pub(crate) p75_ns: u64,
    /// 90 % took no longer.
    pub(crate) p90_ns: u64,
    /// 95 % took no longer.
    pub(crate) p95_ns: u64,
    /// 99 % took no longer.
    pub(crate) p99_ns: u64,
    /// 99.9 % took no longer.
    pub(crate) p99_9_ns: u64,
    /// 99.99 % took no longer.
    pub(crate) p99_99_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_thousandth() {
        let mut recorder = Recorder::default();
        for micros in 1..=10_000 {
            recorder.record(Duration::from_micros(micros));
        }
        let latency = recorder.summary().unwrap();
        let near = |found: u64, wanted: f64| (found as f64 / wanted - 1.0).abs() < 1.1e-3;
        assert_eq!(latency.count, 10_000);
        assert!(near(latency.p50_ns, 5.0e6), "{latency:?}");
        assert!(near(latency.p99_ns, 9.9e6), "{latency:?}");
        assert!(near(latency.p99_9_ns, 9.99e6), "{latency:?}");
        assert!(near(latency.p99_99_ns, 9.999e6), "{latency:?}");
        assert!(near(latency.max_ns, 1.0e7), "{latency:?}");
    }

    #[test]
    fn merging_keeps_every_latency() {
        let (mut one, mut other) = (Recorder::default(), Recorder::default());
        one.record(Duration::from_nanos(10));
        other.record(Duration::from_nanos(1000));
        one.add(&other);
        let latency = one.summary().unwrap();
        assert_eq!((latency.count, latency.min_ns, latency.max_ns), (2, 10, 1000));
    }

    #[test]
    fn nothing_taken_is_no_latency_and_a_huge_one_is_kept_at_the_bound() {
        let mut recorder = Recorder::default();
        assert_eq!(recorder.summary(), None);
        recorder.record(Duration::from_secs(1 << 40));
        let max = recorder.summary().unwrap().max_ns;
        assert!((LATENCY_NS_MAX..LATENCY_NS_MAX * 2).contains(&max), "{max}");
    }
}
