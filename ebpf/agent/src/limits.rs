//! Bounds of the agent.

use std::time::Duration;

/// How often the host is read.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Peers, tenants and NICs with series of their own; the rest is summed as `other`.
pub(crate) const BATCH_SERIES_MAX: usize = 64;
/// Programs with counts of their own; the rest is summed as `other`.
pub(crate) const PROGRAMS_MAX: usize = 64;
/// Slow batches that are remembered.
pub(crate) const SLOW_BATCHES_MAX: usize = 256;
/// Threads of our processes that are watched.
pub(crate) const THREADS_MAX: usize = 2048;
/// Interfaces that are watched.
pub(crate) const INTERFACES_MAX: usize = 512;
/// io_uring requests are watched in one of so many turns.
pub(crate) const URING_TURNS: u64 = 8;
/// Longest wait for a collector that takes what is exported.
pub(crate) const OTLP_DEADLINE: Duration = Duration::from_secs(3);
/// How often metrics are exported.
pub(crate) const OTLP_METRICS_PERIOD: Duration = Duration::from_secs(10);
/// Readings of spans that wait for the exporter; further ones are not exported.
pub(crate) const OTLP_QUEUE_LENGTH: usize = 32;
/// Spans that wait for a collector: about 8 MB; further ones push the oldest out.
pub(crate) const OTLP_SPANS_WAITING_MAX: usize = 16_384;
/// Spans of one request to a collector.
pub(crate) const OTLP_SPANS_PER_REQUEST: usize = 2048;
/// The pause after a first request that a collector did not take; each further one doubles it.
pub(crate) const OTLP_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause by that.
pub(crate) const OTLP_PAUSE_MAX: Duration = Duration::from_secs(30);
/// The longest pause that a collector may ask for.
pub(crate) const OTLP_WANTED_PAUSE_MAX: Duration = Duration::from_mins(10);
/// What is read of a collector's answer.
pub(crate) const OTLP_ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Spans of requests that are held: about 8 MB.
pub(crate) const TRACE_SPANS_MAX: usize = 16_384;
/// Calls whose spans are in one answer to who names no request.
pub(crate) const TRACE_CALLS_SHOWN: usize = 64;
/// An agent whose host was read longer ago is not alive: one turn on a busy host takes a second or
/// two.
pub(crate) const STALLED: Duration = Duration::from_secs(30);
/// Longest wait for a master that takes a report.
pub(crate) const REPORT_DEADLINE: Duration = Duration::from_secs(3);
/// Addresses of NICs are read again after so long.
pub(crate) const REPORT_FACTS_FRESH: Duration = Duration::from_secs(30);
/// Longest wait for the collecting thread to end.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(5);
/// Largest file of kept counters that is read back, in bytes.
pub(crate) const STATE_BYTES_MAX: u64 = 64 << 20;
/// Series of interfaces, threads and disks that are gone whose totals are kept, in case they come
/// back.
pub(crate) const GONE_SERIES_MAX: usize = 512;
/// Control groups that are looked through for the agent's own.
pub(crate) const GROUPS_SEARCHED_MAX: usize = 16_384;
/// Flows (program, NIC, route, direction, shard) with series of their own; the rest is summed as
/// `other`.
pub(crate) const FLOWS_MAX: usize = 2048;
/// How long the page of an ended process stays after it was read: other agents of the host read it
/// too.
pub(crate) const ENDED_PAGE_KEPT: Duration = Duration::from_secs(10);
/// Verdicts of the past that are remembered.
pub(crate) const PAST_SUSPECTS_MAX: usize = 64;
/// Pairs of NIC and peer whose connections are shown.
pub(crate) const LINKS_MAX: usize = 256;
/// A socket that was asked longer ago, in milliseconds, says nothing of now.
pub(crate) const LINK_FRESH_MS: u64 = 3000;
/// Bytes of the kernel's list of locks that are read; a lock takes about sixty.
pub(crate) const LOCKS_BYTES_MAX: u64 = 16 << 20;
/// NICs, flows, links, threads, disks and slow batches that a record of the history holds at most.
pub(crate) const MOMENT_NICS: usize = 32;
pub(crate) const MOMENT_FLOWS: usize = 64;
pub(crate) const MOMENT_LINKS: usize = 32;
pub(crate) const MOMENT_THREADS: usize = 32;
pub(crate) const MOMENT_DISKS: usize = 16;
pub(crate) const MOMENT_SLOW: usize = 16;
/// Records of the history in one answer; a longer time is thinned.
pub(crate) const HISTORY_POINTS_MAX: usize = 240;

/// What a track of the history holds.
#[derive(Debug)]
pub(crate) struct TrackLimits {
    /// Name of its file in the state folder.
    pub(crate) file: &'static str,
    /// Time between two records.
    pub(crate) step_ms: u64,
    /// From the oldest record to the newest.
    pub(crate) length_ms: u64,
    /// All records; where a host needs more, the oldest go.
    pub(crate) bytes: usize,
}

impl TrackLimits {
    /// The largest record.
    pub(crate) const fn record_bytes(&self) -> usize {
        self.bytes / 128
    }

    /// Bytes after which the file is written again without what has gone.
    pub(crate) const fn file_bytes(&self) -> usize {
        self.bytes * 3 / 2
    }
}

/// A quarter of an hour by the second.
pub(crate) const FINE: TrackLimits =
    TrackLimits { file: "history-seconds", step_ms: 1000, length_ms: 900_000, bytes: 10 << 20 };
/// A day by ten seconds.
pub(crate) const COARSE: TrackLimits =
    TrackLimits { file: "history-day", step_ms: 10_000, length_ms: 86_400_000, bytes: 30 << 20 };
/// Disks of our processes that are shown; the others are left out.
pub(crate) const DISKS_MAX: usize = 256;
/// Turns between two looks at the baseline of links.
pub(crate) const BASELINE_TURNS: u64 = 60;
