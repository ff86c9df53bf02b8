//! Bounds of reactors.

use std::time::Duration;

/// Submission entries of a shard's ring; the completion queue has twice as many.
pub(crate) const RING_ENTRIES: u32 = 512;
/// Most operations in flight on one reactor: idle connections each hold one.
pub(crate) const OPERATIONS_MAX: usize = 1 << 20;
/// Least RLIMIT_MEMLOCK that executors on io_uring start with, in bytes.
pub const MEMLOCK_BYTES_MIN: u64 = 512 << 10;
/// Events taken from epoll in one look.
pub(crate) const EVENTS_PER_LOOK: usize = 128;
/// Bytes that operations of a shard on epoll may move at once in one turn, before others get
/// theirs.
pub(crate) const TURN_BYTES: usize = 4 << 20;
/// What an operation counts in [`TURN_BYTES`] beside the bytes it moves.
pub(crate) const TURN_OPERATION_BYTES: usize = 64 << 10;
/// Longest sleep of a calling thread that connects, before it looks whether that is still wanted.
pub(crate) const CONNECT_LOOK: Duration = Duration::from_millis(50);
