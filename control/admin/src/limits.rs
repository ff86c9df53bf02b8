//! Bounds of the HTTP routes. Invariant: no request makes the master list or look up more than
//! this.

use std::time::Duration;

/// Most keys of one `/batch_query_keys` request.
pub const BATCH_KEYS_MAX: usize = 10_000;

/// Most keys that `/get_all_keys` lists.
pub const LISTED_KEYS_MAX: usize = 1_000_000;

/// Time between two summary lines in the log.
pub const REPORT_PERIOD: Duration = Duration::from_secs(10);
