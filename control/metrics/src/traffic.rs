//! What moved between two looks, as one line for people. Invariant: totals only grow, so what is
//! said is the difference of two of them.

use crate::catalogue::buckets::CLIENT_LATENCY_US;
use crate::cell::{Counter, Histogram, HistogramTotals};
use std::fmt::Write as _;
use std::time::Duration;

/// Bytes of one direction and how long its calls or batches took; any thread counts.
#[derive(Debug)]
pub struct TrafficCells {
    bytes: Counter,
    latency_us: Histogram,
}

impl Default for TrafficCells {
    fn default() -> Self {
        Self { bytes: Counter::default(), latency_us: Histogram::new(&CLIENT_LATENCY_US) }
    }
}

impl TrafficCells {
    /// Counts a call that moved bytes.
    pub fn record(&self, bytes: u64, elapsed: Duration) {
        self.bytes.add_shared(bytes);
        self.latency_us.observe_shared(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX));
    }

    /// All so far.
    #[must_use]
    pub fn totals(&self) -> TrafficTotals {
        let mut totals = TrafficTotals { bytes: self.bytes.get(), ..TrafficTotals::default() };
        self.latency_us.add_to(&mut totals.latency_us);
        totals
    }
}

/// Bytes of one direction and how long its calls took, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficTotals {
    /// Payload bytes.
    pub bytes: u64,
    /// Durations of calls, in the buckets of `CLIENT_LATENCY_US`.
    pub latency_us: HistogramTotals,
}

/// Says what moved since it was asked the last time.
#[derive(Debug)]
pub struct TrafficReport {
    title: &'static str,
    before: [TrafficTotals; 2],
}

/// The directions in the order of a report.
const WORDS: [&str; 2] = ["read", "written"];

impl TrafficReport {
    /// A report with this title, beginning with what was read and written so far.
    #[must_use]
    pub fn new(title: &'static str, so_far: [TrafficTotals; 2]) -> Self {
        Self { title, before: so_far }
    }

    /// The line about the last `elapsed`, in which the totals have become these; nothing if no call
    /// has ended.
    pub fn line(&mut self, now: [TrafficTotals; 2], elapsed: Duration) -> Option<String> {
        let before = std::mem::replace(&mut self.before, now);
        let parts = self.before.iter().zip(&before).zip(WORDS);
        let parts: Vec<String> = parts
            .filter_map(|((now, before), word)| describe(&difference(now, before), word, elapsed))
            .collect();
        let seconds = elapsed.as_secs_f64();
        (!parts.is_empty())
            .then(|| format!("{} of {seconds:.0} s: {}", self.title, parts.join("; ")))
    }
}

fn difference(now: &TrafficTotals, before: &TrafficTotals) -> TrafficTotals {
    let earlier = |index: usize| before.latency_us.counts.get(index).copied().unwrap_or(0);
    let counts = now.latency_us.counts.iter().enumerate();
    TrafficTotals {
        bytes: now.bytes.wrapping_sub(before.bytes),
        latency_us: HistogramTotals {
            counts: counts.map(|(index, count)| count.wrapping_sub(earlier(index))).collect(),
            sum: now.latency_us.sum.wrapping_sub(before.latency_us.sum),
            ..HistogramTotals::default()
        },
    }
}

fn describe(moved: &TrafficTotals, word: &str, elapsed: Duration) -> Option<String> {
    let calls: u64 = moved.latency_us.counts.iter().sum();
    if calls == 0 {
        return None;
    }
    let rate = moved.bytes as f64 / 1e6 / elapsed.as_secs_f64().max(1e-9);
    let mean = moved.latency_us.sum / calls;
    let mut text = format!("{rate:.2} MB/s {word} by {calls} calls, mean {mean} us");
    for percent in [50, 99] {
        let _ = match bound(&moved.latency_us.counts, calls, percent) {
            Some(bound) => write!(text, ", {percent} % within {bound} us"),
            None => write!(text, ", {percent} % not within 20 s"),
        };
    }
    Some(text)
}

/// The lowest bound that so many of the values do not exceed.
fn bound(counts: &[u64], all: u64, percent: u64) -> Option<u64> {
    let wanted = (all * percent).div_ceil(100);
    let mut seen = 0;
    let index = counts.iter().position(|count| {
        seen += count;
        seen >= wanted
    })?;
    CLIENT_LATENCY_US.bounds.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Duration = Duration::from_secs(5);

    #[test]
    fn a_line_says_what_moved_since_the_last_one() {
        let (read, written) = (TrafficCells::default(), TrafficCells::default());
        read.record(1 << 30, FIVE);
        let totals = || [read.totals(), written.totals()];
        let mut report = TrafficReport::new("Store metrics", totals());
        assert_eq!(report.line(totals(), FIVE), None, "nothing has moved");
        for micros in [60, 60, 140, 4_000] {
            read.record(2_500_000, Duration::from_micros(micros));
        }
        written.record(5_000_000, Duration::from_micros(80));
        let line = report.line(totals(), FIVE).unwrap();
        assert_eq!(
            line,
            "Store metrics of 5 s: 2.00 MB/s read by 4 calls, mean 1065 us, 50 % within 75 us, 99 % within 5000 us; \
             1.00 MB/s written by 1 calls, mean 80 us, 50 % within 125 us, 99 % within 125 us"
        );
        assert_eq!(report.line(totals(), FIVE), None);
    }

    #[test]
    fn calls_that_took_longer_than_all_bounds_are_said_to() {
        let cells = TrafficCells::default();
        let mut report = TrafficReport::new("M", Default::default());
        cells.record(1, Duration::from_secs(60));
        let line = report.line([TrafficTotals::default(), cells.totals()], FIVE).unwrap();
        assert!(line.contains("written") && line.contains("50 % not within 20 s"), "{line}");
    }
}
