//! Bounds of the metadata service. Invariant: no peer can make it grow beyond these.

use std::time::Duration;

/// Longest record name in bytes, after decoding.
pub const KEY_BYTES_MAX: usize = 4096;

/// Most records.
pub const RECORDS_MAX: usize = 1 << 18;

/// Most bytes of all names and bodies together.
pub const TOTAL_BYTES_MAX: usize = 1 << 30;

/// Longest life a record can be given.
pub const LIFE_MAX: Duration = Duration::from_secs(3600);

/// Time between two searches for records whose life has ended.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(2);

/// Time a request to a separate metadata service may take.
pub const REMOTE_TIMEOUT: Duration = Duration::from_secs(5);
