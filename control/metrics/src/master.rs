//! The master's numbers: cells that shards count in, and the numbers of its state. Invariant: one
//! [`MasterCells`] belongs to one shard thread; sums are made only when they are read.

mod build;
mod numbers;
mod render;
mod tenants;

use crate::catalogue::buckets::QUARTER_DURATIONS;
use crate::cell::{Counter, Gauge, Histogram, HistogramTotals};
use crate::exemplar::Exemplar;
use crate::rpc_kind::RpcKind;

pub use build::BuildInfo;
pub use numbers::{MasterNumbers, SegmentNumbers};
pub use tenants::TenantNumbers;

/// What one shard counts. The shard's thread is the only writer.
#[derive(Debug)]
#[repr(align(128))]
pub struct MasterCells {
    calls: Box<[CallCells]>,
    /// Connections accepted.
    pub connections_opened: Counter,
    /// Accepted connections that ended.
    pub connections_closed: Counter,
    /// Connections turned away: limit or protocol version.
    pub connections_refused: Counter,
    /// Frames that could not be understood.
    pub protocol_errors: Counter,
    /// Objects taken over from what owners announced.
    pub adopted_objects: Counter,
    /// Segments and disks that calls wait for until their owners have announced what lies there.
    pub awaited_segments: Gauge,
    /// How long after its start the master took over the last object that an owner announced.
    pub rebuild_ns: Gauge,
    /// Owners that were cut off because they took records too slowly.
    pub followers_cut: Counter,
    /// Log lines that were left out because of a peer that caused too many.
    pub log_lines_left_out: Counter,
    /// Bytes of calls received.
    pub received_bytes: Counter,
    /// Bytes of answers sent.
    pub sent_bytes: Counter,
    /// Nanoseconds spent on work.
    pub busy_ns: Counter,
    /// Nanoseconds spent polling without work.
    pub poll_ns: Counter,
}

#[derive(Debug)]
struct CallCells {
    requests: Counter,
    failures: Counter,
    partial_successes: Counter,
    items: Counter,
    failed_items: Counter,
    duration_ns: Histogram,
}

/// Numbers of one kind of call summed over shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// Calls answered.
    pub requests: u64,
    /// Calls without one good item.
    pub failures: u64,
    /// Calls with good and bad items.
    pub partial_successes: u64,
    /// Items of all calls; single-key calls count one.
    pub items: u64,
    /// Bad items.
    pub failed_items: u64,
}

impl CallTotals {
    /// Calls with nothing but good items.
    #[must_use]
    pub fn successes(&self) -> u64 {
        self.requests.saturating_sub(self.failures).saturating_sub(self.partial_successes)
    }

    /// Good items.
    #[must_use]
    pub fn good_items(&self) -> u64 {
        self.items.saturating_sub(self.failed_items)
    }
}

impl Default for MasterCells {
    fn default() -> Self {
        let call = |_: &RpcKind| CallCells {
            requests: Counter::default(),
            failures: Counter::default(),
            partial_successes: Counter::default(),
            items: Counter::default(),
            failed_items: Counter::default(),
            duration_ns: Histogram::new(&QUARTER_DURATIONS),
        };
        Self {
            calls: RpcKind::ALL.iter().map(call).collect(),
            connections_opened: Counter::default(),
            connections_closed: Counter::default(),
            connections_refused: Counter::default(),
            protocol_errors: Counter::default(),
            adopted_objects: Counter::default(),
            awaited_segments: Gauge::default(),
            rebuild_ns: Gauge::default(),
            followers_cut: Counter::default(),
            log_lines_left_out: Counter::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            busy_ns: Counter::default(),
            poll_ns: Counter::default(),
        }
    }
}

impl MasterCells {
    /// Counts a call about one thing.
    #[inline]
    pub fn record_call(&self, kind: RpcKind, ok: bool, elapsed_ns: u64) {
        self.record_batch(kind, 1, u64::from(!ok), elapsed_ns);
    }

    /// Counts a call about `items` keys, `failed` of them bad. It is a failure when all are bad and
    /// a partial success when some are.
    #[inline]
    pub fn record_batch(&self, kind: RpcKind, items: u64, failed: u64, elapsed_ns: u64) {
        let call = &self.calls[kind as usize];
        call.requests.add(1);
        call.items.add(items);
        call.failed_items.add(failed);
        if failed > 0 && failed >= items {
            call.failures.add(1);
        } else if failed > 0 {
            call.partial_successes.add(1);
        }
        call.duration_ns.observe(elapsed_ns);
    }

    /// Shows a request that was kept of those that a kind of call took so long for.
    pub fn show_call(&self, kind: RpcKind, trace: u128, elapsed_ns: u64) {
        self.calls[kind as usize].duration_ns.show(Exemplar::now(trace, elapsed_ns));
    }

    /// Sums one kind of call over shards.
    pub fn call_totals<'a>(
        shards: impl IntoIterator<Item = &'a Self>,
        kind: RpcKind,
    ) -> CallTotals {
        let mut totals = CallTotals::default();
        for shard in shards {
            let call = &shard.calls[kind as usize];
            totals.requests += call.requests.get();
            totals.failures += call.failures.get();
            totals.partial_successes += call.partial_successes.get();
            totals.items += call.items.get();
            totals.failed_items += call.failed_items.get();
        }
        totals
    }

    fn duration_totals<'a>(
        shards: impl IntoIterator<Item = &'a Self>,
        kind: RpcKind,
    ) -> HistogramTotals {
        let mut totals = HistogramTotals::default();
        for shard in shards {
            shard.calls[kind as usize].duration_ns.add_to(&mut totals);
        }
        totals
    }
}

#[cfg(test)]
mod tests;
