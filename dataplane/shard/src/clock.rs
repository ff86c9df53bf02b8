//! The process's monotonic clock. Nothing in the project reads a wall clock to decide anything.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

static START: OnceLock<Instant> = OnceLock::new();

/// Time since the first call in this process; never goes back.
pub fn monotonic() -> Duration {
    START.get_or_init(Instant::now).elapsed()
}

/// [`monotonic`] in whole milliseconds.
pub fn monotonic_ms() -> u64 {
    monotonic().as_millis() as u64
}
