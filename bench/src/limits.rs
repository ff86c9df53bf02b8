//! Bounds and sizes of the benchmarks.
//! Invariant: everything that waits, retries or grows has its bound here.

use std::time::Duration;

/// Size of each of two memories that blocks are copied between: far larger than any cache.
pub(crate) const COPY_BYTES: usize = 512 << 20;
/// Size of each memory of the cold memcpy, as of the segment that `tcp-ratio` reads.
pub(crate) const COLD_BYTES: usize = 1 << 30;
/// Length of one memcpy measurement.
pub(crate) const COLD_TIME: Duration = Duration::from_millis(150);
/// Most bytes in one call of the copy benchmark.
pub(crate) const CALL_BYTES: usize = 16 << 20;
/// Most keys in one call of the copy benchmark.
pub(crate) const CALL_KEYS: usize = 64;
/// How long to wait for an answer of memcached.
pub(crate) const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// CPU time of others, as a share of all cores, above which a round is dropped.
pub(crate) const FOREIGN_SHARE_MAX: f64 = 0.05;
/// Stolen CPU time, as a share of all cores, above which a round is dropped.
pub(crate) const STEAL_SHARE_MAX: f64 = 0.03;
/// Difference of the two memcpy measurements around a round above which it is dropped.
pub(crate) const CEILING_DRIFT_MAX: f64 = 0.05;
/// Rounds tried for each round wanted, before the benchmark gives up.
pub(crate) const TRIES_PER_ROUND: usize = 6;
/// Longest line that memcached may send.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 20;
/// Bytes of a small write.
pub(crate) const SMALL_BYTES: usize = 4096;
/// Small writes per round.
pub(crate) const SMALL_CALLS: usize = 2000;
/// Longest time for one transfer of the engine.
pub(crate) const TRANSFER_DEADLINE: Duration = Duration::from_secs(10);
