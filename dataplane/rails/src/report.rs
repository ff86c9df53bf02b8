//! Counters of each rail: written by one shard, read by any thread, a plain load and store each.

use crate::limits::LATENCY_BUCKETS;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number with one writer.
#[derive(Debug, Default)]
pub(crate) struct OwnedCounter(AtomicU64);

impl OwnedCounter {
    pub(crate) fn add(&self, amount: u64) {
        self.set(self.get().wrapping_add(amount));
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one shard counts for one rail.
#[derive(Debug, Default)]
pub(crate) struct RailCells {
    pub(crate) read_bytes: OwnedCounter,
    pub(crate) written_bytes: OwnedCounter,
    pub(crate) reads: OwnedCounter,
    pub(crate) writes: OwnedCounter,
    pub(crate) errors: OwnedCounter,
    pub(crate) retries: OwnedCounter,
    pub(crate) stray: OwnedCounter,
    pub(crate) in_flight_bytes: OwnedCounter,
    pub(crate) bytes_per_second: OwnedCounter,
    pub(crate) pairs_up: OwnedCounter,
    latency: [OwnedCounter; LATENCY_BUCKETS],
}

impl RailCells {
    /// A slice took this long from post to completion.
    pub(crate) fn note_latency(&self, took: Duration) {
        self.latency[bucket(took)].add(1);
    }
}

/// The histogram bucket of a latency: bucket 0 ends at 256 ns, each further one is twice as long.
fn bucket(took: Duration) -> usize {
    let steps = took.as_nanos() as u64 >> 8;
    ((64 - steps.leading_zeros()) as usize).min(LATENCY_BUCKETS - 1)
}

/// What one rail has done since the start, all shards together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RailReport {
    /// Device name.
    pub rail: String,
    /// Whether the port carries traffic.
    pub active: bool,
    /// Bytes read from peers.
    pub read_bytes: u64,
    /// Bytes written to peers.
    pub written_bytes: u64,
    /// Slices read.
    pub reads: u64,
    /// Slices written.
    pub writes: u64,
    /// Work requests that failed by their own or their rail's fault.
    pub errors: u64,
    /// Slices sent again because of an error, their own or another's.
    pub retries: u64,
    /// Completions that came twice or too late and were ignored.
    pub stray: u64,
    /// Bytes posted and not completed.
    pub in_flight_bytes: u64,
    /// Measured bandwidth, the sum over shards of their present estimates.
    pub bytes_per_second: u64,
    /// Queue pairs that are proven and in use.
    pub pairs_up: u64,
    /// Slices by latency: entry 0 below 256 ns, each further one twice as long as the one before.
    pub latency: [u64; LATENCY_BUCKETS],
}

impl RailReport {
    pub(crate) fn add(&mut self, cells: &RailCells) {
        self.read_bytes += cells.read_bytes.get();
        self.written_bytes += cells.written_bytes.get();
        self.reads += cells.reads.get();
        self.writes += cells.writes.get();
        self.errors += cells.errors.get();
        self.retries += cells.retries.get();
        self.stray += cells.stray.get();
        self.in_flight_bytes += cells.in_flight_bytes.get();
        self.bytes_per_second += cells.bytes_per_second.get();
        self.pairs_up += cells.pairs_up.get();
        for (sum, cell) in self.latency.iter_mut().zip(&cells.latency) {
            *sum += cell.get();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fall_into_buckets_that_double() {
        assert_eq!(bucket(Duration::from_nanos(255)), 0);
        assert_eq!(bucket(Duration::from_nanos(256)), 1);
        assert_eq!(bucket(Duration::from_nanos(1024)), 3);
        assert_eq!(bucket(Duration::from_secs(1_000_000)), LATENCY_BUCKETS - 1);
    }

    #[test]
    fn a_report_sums_the_shards() {
        let cells = [RailCells::default(), RailCells::default()];
        for cells in &cells {
            cells.read_bytes.add(5);
            cells.note_latency(Duration::from_nanos(300));
        }
        let mut report = RailReport::default();
        cells.iter().for_each(|cells| report.add(cells));
        assert_eq!((report.read_bytes, report.latency[1]), (10, 2));
    }
}
