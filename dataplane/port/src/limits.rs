//! Bounds of ports: times, bytes, shares.

use std::time::Duration;

/// Longest a peer may take for a whole frame that it has begun, or to take an answer.
pub const FRAME_DEADLINE: Duration = Duration::from_secs(10);
/// Longest a peer may take from the connect to the last byte of its greeting.
pub const GREETING_DEADLINE: Duration = Duration::from_secs(5);

/// Frames up to so many bytes may use the whole budget of unfinished frames...
pub(crate) const SMALL_FRAME_BYTES: usize = 64 << 10;
/// ... those up to so many three quarters of it, and larger ones half.
pub(crate) const MEDIUM_FRAME_BYTES: usize = 1 << 20;
/// Pause between two looks whether the budget has room for a frame.
pub(crate) const BUDGET_PAUSE: Duration = Duration::from_millis(5);
/// Frames up to so many bytes need no room in the budget: each connection has them anyway.
pub(crate) const FREE_FRAME_BYTES: usize = 4096;

/// Pause between two looks for idle connections.
pub(crate) const SWEEP_PAUSE: Duration = Duration::from_secs(1);
/// Longest that a new connection waits for the place of one that was closed for it.
pub(crate) const EVICTION_DEADLINE: Duration = Duration::from_secs(1);
/// At the bound of connections an address keeps this part of them from others; what it has beyond
/// goes first.
pub(crate) const ADDRESS_SHARE: usize = 4;
