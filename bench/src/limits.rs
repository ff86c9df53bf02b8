//! Bounds and sizes of the bench tools.
//! Invariant: everything that waits, retries or grows has its bound here.

use std::time::Duration;

/// How long to wait for a started program.
pub(crate) const START_DEADLINE: Duration = Duration::from_secs(20);
/// Pause between looks at something that is not ready.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Load before the clock starts: connections are made, pages are touched.
pub(crate) const WARM_UP: Duration = Duration::from_millis(200);
/// The end of a pause that is spent awake.
pub(crate) const AWAKE: Duration = Duration::from_micros(60);
/// Most operations per second of an open loop.
pub(crate) const RATE_MAX: i128 = 1_000_000_000;
/// Most rounds of a row.
pub(crate) const ROUNDS_MAX: i128 = 10_000;
/// CPU time of others, as a share of all cores, above which a round is dropped.
pub(crate) const FOREIGN_SHARE_MAX: f64 = 0.05;
/// Stolen CPU time, as a share of all cores, above which a round is dropped.
pub(crate) const STEAL_SHARE_MAX: f64 = 0.03;
/// Difference of the two takes of a baseline around a round above which the round is dropped.
pub(crate) const DRIFT_MAX: f64 = 0.05;
/// Rounds tried for each round wanted, before a row is given up.
pub(crate) const TRIES_PER_ROUND: u32 = 6;
/// Longest one take of a baseline takes.
pub(crate) const BASELINE_TIME: Duration = Duration::from_millis(250);
/// How long to wait for an answer of memcached, the pump or the ping-pong.
pub(crate) const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// How long a worker waits for the oldest of its calls before it looks at the others.
pub(crate) const FLIGHT_LOOK: Duration = Duration::from_micros(100);
/// Longest answer that memcached may send.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 20;
/// Parts of a row's time whose rates are kept, for the spread.
pub(crate) const SAMPLES_PER_ROW: u32 = 20;
/// Shortest of these parts; shorter ones would show the scheduler rather than the load.
pub(crate) const SAMPLE_MIN: Duration = Duration::from_millis(20);
/// Longest of these parts.
pub(crate) const SAMPLE_MAX: Duration = Duration::from_secs(1);
/// Most rates kept of one row; a longer run keeps the first.
pub(crate) const SAMPLES_MAX: usize = 4096;
/// Longest latency a histogram tells apart; longer ones count as this.
pub(crate) const LATENCY_NS_MAX: u64 = 600_000_000_000;
/// Significant digits of a latency.
pub(crate) const LATENCY_DIGITS: u8 = 3;

/// Largest report that is read.
pub(crate) const REPORT_BYTES_MAX: u64 = 64 << 20;
/// Most operations in flight per thread.
pub(crate) const DEPTH_MAX: i128 = 1024;
/// Most threads of a load.
pub(crate) const THREADS_MAX: i128 = 256;
/// Longest time per row, in milliseconds.
pub(crate) const DURATION_MS_MAX: i128 = 24 * 3600 * 1000;
/// Most operations per row.
pub(crate) const ITERATIONS_MAX: i128 = 1 << 40;
/// Largest buffer, in bytes.
pub(crate) const BUFFER_BYTES_MAX: i128 = 1 << 40;
/// Sizes of `--all`, in bytes: each twice the one before.
pub(crate) const SWEEP_BYTES: (u64, u64) = (4 << 10, 64 << 20);
/// A network card slower than this share of the median gets a warning.
pub(crate) const LAGGING_SHARE: f64 = 0.5;
/// How much longer than its deadline a batch is waited for.
pub(crate) const WAIT_MARGIN: Duration = Duration::from_secs(2);
/// Longest wait for an engine to close at the end of a run; the process ends without it after that.
pub(crate) const CLOSE_DEADLINE: Duration = Duration::from_secs(3);
/// Time between looks at the wish to end.
pub(crate) const STOP_LOOK: Duration = Duration::from_millis(100);
/// Load average, as a share of the CPUs, from which a report warns that the machine is busy.
pub(crate) const BUSY_LOAD_SHARE: f64 = 0.5;
/// Most blocks of a batch.
pub(crate) const BATCH_MAX: i128 = 1 << 20;
/// Most digits behind the point.
pub(crate) const PRECISION_MAX: i128 = 12;
/// Longest time for one batch of `transfer_engine_bench`.
pub(crate) const TRANSFER_TIMEOUT: Duration = Duration::from_secs(30);
/// Most keys of a call.
pub(crate) const KEYS_PER_CALL_MAX: i128 = 16_384;
/// Most keys that a master of our own is given.
pub(crate) const KEYS_MAX: i128 = 100_000_000;
/// Most blocks of one request of a trace: more than any model's context.
pub(crate) const BLOCKS_PER_REQUEST_MAX: usize = 65_536;
/// Longest line of a trace.
pub(crate) const TRACE_LINE_BYTES_MAX: usize = 4 << 20;
/// Parts of a row below which its spread says nothing.
pub(crate) const SPREAD_PARTS_MIN: usize = 3;
/// Blocks that are asked for when a run wants to know whether it is of one machine.
pub(crate) const NEAR_KEYS: usize = 64;
/// Calls' worth of blocks that `bench store` keeps stored per thread.
pub(crate) const STORED_CALLS_MAX: usize = 1024;

/// Memory of a cluster of our own, in pools: blocks that were removed but read a moment ago still
/// hold their space.
pub(crate) const SEGMENT_POOLS: u64 = 3;
/// Leases of a cluster that is not ours: Mooncake's default of five seconds, and some.
pub(crate) const FOREIGN_LEASE: Duration = Duration::from_secs(6);
/// Sizes of objects on a disk.
pub(crate) const DISK_SIZES: [u64; 2] = [128 << 10, 1 << 20];
/// Objects that are written at once.
pub(crate) const DISK_WRITE_DEPTH: u64 = 8;
/// Bytes of objects in one call of an owner that demotes, and such calls at once.
pub(crate) const DEMOTED_BYTES_PER_CALL: u64 = 8 << 20;
pub(crate) const DEMOTING_CALLS: u64 = 4;
/// What demotion is held against: fio's blocks, and how many at once.
pub(crate) const DEMOTION_FIO: (u64, u64) = (1 << 20, 8);
/// Memory before the disk of a get's rows.
pub(crate) const TIER_MEMORY_BYTES: u64 = 64 << 20;
/// Pause between two tries of a put that waits for room there.
pub(crate) const TIER_LOOK: Duration = Duration::from_millis(1);
/// Blocks of the working set of a tier, in pools of memory.
pub(crate) const TIER_POOLS: u64 = 4;
/// Longest wait for a disk to open.
pub(crate) const DISK_DEADLINE: Duration = Duration::from_secs(60);
/// Most blocks of a pool that a policy is played with.
pub(crate) const POOL_BLOCKS_MAX: u64 = 1 << 28;
