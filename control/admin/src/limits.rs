//! Bounds of the HTTP routes. Invariant: no request makes the master list or look up more than
//! this.

use std::time::Duration;

/// Most keys of one `/batch_query_keys` request.
pub const BATCH_KEYS_MAX: usize = 10_000;

/// Keys of such a request that the master looks up at a time.
pub const LOOKED_UP_AT_A_TIME: usize = 256;

/// Segments that one piece of an answer shows.
pub const SEGMENTS_PER_PIECE: usize = 256;

/// Most keys that `/get_all_keys` lists.
pub const LISTED_KEYS_MAX: usize = 1_000_000;

/// Most segments that one drain job names as sources, and as targets.
pub const DRAIN_SEGMENTS_MAX: usize = perigee_schemas::limits::SEGMENTS_MAX;

/// Moves of a drain job under way at the same time if its request does not say...
pub const DRAIN_CONCURRENCY: u32 = 4;
/// ... and at most.
pub const DRAIN_CONCURRENCY_MAX: u32 = 1024;

/// Time between two summary lines in the log.
pub const REPORT_PERIOD: Duration = Duration::from_secs(10);
