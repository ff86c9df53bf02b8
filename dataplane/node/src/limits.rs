//! Bounds of the node daemon. Invariant: every wait of this crate names its constant here.

use std::time::Duration;

/// Largest port number.
pub const PORT_MAX: i128 = 65_535;

/// Most memory one node may donate, in bytes (64 TiB).
pub const SEGMENT_BYTES_MAX: i128 = 1 << 46;

/// Longest time a start may wait for its master, in milliseconds (one day).
pub const WAIT_MS_MAX: i128 = 24 * 3600 * 1000;

/// Most shards that serve donated memory.
pub const DATA_SHARDS_MAX: i128 = 64;

/// Highest CPU or NUMA node number that a setting may name.
pub const CPU_NUMBER_MAX: i128 = 8191;

/// Longest busy polling of a data shard, in microseconds.
pub const POLL_US_MAX: i128 = 1_000_000;

/// Most threads that the older setting may name.
pub const THREADS_MAX: i128 = 4096;

/// Ports that are tried for the name of a node that was given none.
pub const NAME_PORTS_TRIED: u16 = 256;

/// Pause between two attempts to join the cluster.
pub const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);

/// Longest wait for one TCP connection that only asks whether a process listens.
pub const PROBE_DEADLINE: Duration = Duration::from_secs(2);

/// Pause between two log lines about the same obstacle.
pub const OBSTACLE_LOG_PAUSE: Duration = Duration::from_secs(10);

/// Descriptors that a node needs to become ready and to serve clients.
pub const DESCRIPTORS_MIN: u64 = 32;

/// Longest time that leaving the cluster may take before the program ends without it.
pub const CLOSE_DEADLINE: Duration = Duration::from_secs(12);

/// Longest time that moving objects away before a stop may be given, in milliseconds (one day).
pub const DRAIN_TIMEOUT_MS_MAX: i128 = 86_400_000;

/// Longest wait for one answer of the master about a drain.
pub const DRAIN_ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// Longest wait for the end of a drain job whose time is over.
pub const DRAIN_CANCEL_DEADLINE: Duration = Duration::from_secs(4);

/// How long after its start a master may not have heard of all segments: owners look for it once a
/// second, and are late on a host with more to do than it can.
pub const MASTER_SETTLES: Duration = Duration::from_secs(5);

/// Pause between two looks at a drain job.
pub const DRAIN_POLL_PAUSE: Duration = Duration::from_millis(200);

/// Longest wait for one list of segments before a drain of its own accord.
pub const DRAIN_LOOK_DEADLINE: Duration = Duration::from_secs(2);

/// Longest silence of the master's HTTP port in such a drain.
pub const DRAIN_SILENCE: Duration = Duration::from_secs(3);

/// Longest path of a Unix socket in bytes.
pub(crate) const SOCKET_PATH_BYTES_MAX: usize = 107;
