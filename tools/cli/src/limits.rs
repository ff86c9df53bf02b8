//! Bounds and usual ports of the program itself. Invariant: logging never holds more than these.

use std::time::Duration;

/// The usual HTTP port of a master.
pub(crate) const MASTER_PORT: u16 = 9003;

/// Log lines waiting to be written; further ones are dropped and counted.
pub(crate) const LOG_QUEUE_LINES_MAX: usize = 4096;

/// Longest log line in bytes; the rest of a longer one is cut.
pub(crate) const LOG_LINE_BYTES_MAX: usize = 16 * 1024;

/// Longest time the end of the program waits until its last log lines are written.
pub(crate) const LOG_FLUSH_DEADLINE: Duration = Duration::from_secs(1);

/// Longest wait of `perigee status` that can be set, in milliseconds.
pub(crate) const STATUS_TIMEOUT_MS_MAX: i128 = 600_000;

/// Longest answer of a master about one key.
pub(crate) const MASTER_ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Longest wait of `perigee drain` for the list of segments.
pub(crate) const DRAIN_ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// Longest wait for the data port of one segment.
pub(crate) const REACH_DEADLINE: Duration = Duration::from_secs(2);

/// Segments that are tried at the same time.
pub(crate) const REACH_THREADS_MAX: usize = 32;

/// Locked memory that every program of the cluster needs for shards on io_uring, in bytes.
pub(crate) const DOCTOR_LOCKED_BYTES_MIN: u64 = perigee_shard::MEMLOCK_BYTES_MIN;

/// Open files a process with connections to many peers needs.
pub(crate) const DOCTOR_OPEN_FILES_MIN: u64 = 8192;

/// Highest `vm.swappiness` with which segments stay in memory.
pub(crate) const DOCTOR_SWAPPINESS_MAX: u32 = 10;

/// Smallest MTU that carries RDMA packets of 4096 bytes with their headers.
pub(crate) const DOCTOR_ROCE_MTU_MIN: u32 = 4200;

/// Size up to which the kernel must let a connection's buffers grow, in bytes.
pub(crate) const DOCTOR_AUTOTUNED_BYTES_MIN: u64 = 4 << 20;

/// Largest buffer a program may ask for, in bytes: the kernel's own default.
pub(crate) const DOCTOR_SOCKET_BYTES_MIN: u64 = 212_992;

/// Largest error of the clock with which times of several hosts still fit, in microseconds.
pub(crate) const DOCTOR_CLOCK_ERROR_US_MAX: i64 = 500_000;

/// Bytes written and read back to measure a disk.
pub(crate) const DOCTOR_DISK_TEST_BYTES: u64 = 32 << 20;

/// Bytes of one access of that test.
pub(crate) const DOCTOR_DISK_ACCESS_BYTES: usize = 1 << 20;

/// Longest time of that test for one folder; what was read until then counts.
pub(crate) const DOCTOR_DISK_DEADLINE: Duration = Duration::from_secs(2);

/// Slowest disk that is worth using, in bytes per second.
pub(crate) const DOCTOR_DISK_RATE_MIN: u64 = 200 << 20;

/// Part of a disk that should stay free, in percent.
pub(crate) const DOCTOR_DISK_FREE_PERCENT_MIN: u64 = 5;

/// Bytes of a bundle before it is compressed, without its list of contents.
pub(crate) const BUNDLE_BYTES_MAX: usize = 96 << 20;

/// Bytes of one file in it.
pub(crate) const BUNDLE_FILE_BYTES_MAX: usize = 16 << 20;

/// Bytes at the end of a log, or of what a program prints, that a bundle takes.
pub(crate) const BUNDLE_LOG_BYTES_MAX: u64 = 4 << 20;

/// Longest time that a bundle waits for one program.
pub(crate) const BUNDLE_PROGRAM_DEADLINE: Duration = Duration::from_secs(5);

/// NICs whose statistics a bundle takes.
pub(crate) const BUNDLE_NICS_MAX: usize = 32;

/// Past suspects of which a bundle takes the minutes around.
pub(crate) const BUNDLE_SUSPECTS_MAX: usize = 8;

/// Longest time of the flight recorder that a bundle takes, in minutes.
pub(crate) const BUNDLE_MINUTES_MAX: i128 = 1440;

/// Largest answer of an agent, in bytes.
pub(crate) const AGENT_ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Largest report of another host, in bytes.
pub(crate) const DOCTOR_PEER_BYTES_MAX: u64 = 4 << 20;
