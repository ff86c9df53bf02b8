//! Bounds of the metadata service. Invariant: no peer can make it grow beyond these.

use std::time::Duration;

/// Longest record name in bytes, after decoding.
pub const KEY_BYTES_MAX: usize = 4096;

/// Most records.
pub const RECORDS_MAX: usize = 1 << 18;

/// Most bytes of all names and bodies together.
pub const TOTAL_BYTES_MAX: usize = 1 << 30;

/// Time a request to a separate metadata service may take.
pub const REMOTE_TIMEOUT: Duration = Duration::from_secs(5);
