//! Bounds of the agent.

use std::time::Duration;

/// How often the host is read.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Peers, tenants and NICs with series of their own; the rest is summed as `other`.
pub(crate) const BATCH_SERIES_MAX: usize = 64;
/// Slow batches that are remembered.
pub(crate) const SLOW_BATCHES_MAX: usize = 256;
/// Slow batches taken from the ring in one turn.
pub(crate) const SLOW_BATCHES_PER_TURN: usize = 1024;
/// Threads of our processes that are watched.
pub(crate) const THREADS_MAX: usize = 2048;
/// Interfaces that are watched.
pub(crate) const INTERFACES_MAX: usize = 512;
/// How long batches stay watched after the agent was read last.
pub(crate) const WATCH_LENGTH: Duration = Duration::from_secs(10);
/// An agent whose host was read longer ago is not alive: one turn on a busy host takes a second or
/// two.
pub(crate) const STALLED: Duration = Duration::from_secs(30);
/// Longest wait for the collecting thread to end.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(5);
/// Largest file of kept counters that is read back, in bytes.
pub(crate) const STATE_BYTES_MAX: u64 = 64 << 20;
/// Series of interfaces, threads and disks that are gone whose totals are kept, in case they come
/// back.
pub(crate) const GONE_SERIES_MAX: usize = 512;
/// Control groups that are looked through for the agent's own.
pub(crate) const GROUPS_SEARCHED_MAX: usize = 16_384;
/// Bytes of a process's memory map that are read; a Python process has some hundred kilobytes.
pub(crate) const MAPS_BYTES_MAX: u64 = 8 << 20;
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
