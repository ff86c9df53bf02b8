//! Bounds of the program itself. Invariant: logging never holds more than these.

use std::time::Duration;

/// Log lines waiting to be written; further ones are dropped and counted.
pub(crate) const LOG_QUEUE_LINES_MAX: usize = 4096;

/// Longest log line in bytes; the rest of a longer one is cut.
pub(crate) const LOG_LINE_BYTES_MAX: usize = 16 * 1024;

/// Longest time the end of the program waits until its last log lines are written.
pub(crate) const LOG_FLUSH_DEADLINE: Duration = Duration::from_secs(1);

/// Longest time `perigee status` may be told to wait, in milliseconds.
pub(crate) const STATUS_TIMEOUT_MS_MAX: i128 = 600_000;
