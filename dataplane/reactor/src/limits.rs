//! Bounds of reactors.

use std::time::Duration;

/// Submission entries of a shard's ring; the completion queue has twice as many.
pub(crate) const RING_ENTRIES: u32 = 512;
/// Longest message that is sent without the ring if the socket takes it at once. A longer one gains
/// nothing, and others of its shard would wait while it is copied.
pub(crate) const SENT_AT_ONCE_BYTES_MAX: usize = 64 << 10;
/// Buffers that a ring registers, at most.
pub(crate) const REGISTERED_BUFFERS_MAX: u16 = 256;
/// Most operations in flight on one reactor: idle connections each hold one.
pub(crate) const OPERATIONS_MAX: usize = 1 << 20;
/// Least RLIMIT_MEMLOCK that executors on io_uring start with, in bytes.
pub const MEMLOCK_BYTES_MIN: u64 = 512 << 10;
/// Threads that carry out operations on files for one shard on epoll: so many are under way at
/// once.
pub(crate) const FILE_THREADS_MAX: usize = 8;
/// How long such a thread waits for the next operation before it ends.
pub(crate) const FILE_THREAD_IDLE: Duration = Duration::from_secs(10);
/// Events taken from epoll in one look.
pub(crate) const EVENTS_PER_LOOK: usize = 128;
/// Bytes that operations of a shard may move at once in one turn, before others get
/// theirs.
pub(crate) const TURN_BYTES: usize = 4 << 20;
/// What an operation counts in [`TURN_BYTES`] beside the bytes it moves.
pub(crate) const TURN_OPERATION_BYTES: usize = 64 << 10;
/// Silence of an idle connection after which its other end is asked whether it is there.
pub(crate) const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(2);
/// Pause between two questions.
pub(crate) const KEEP_ALIVE_PAUSE: Duration = Duration::from_secs(1);
/// Questions without an answer after which the connection breaks.
pub(crate) const KEEP_ALIVE_PROBES: u32 = 3;
/// How often data was sent again before its silent receiver may be taken for gone.
pub(crate) const VANISHED_TRIES: u8 = 3;
/// Longest sleep of a calling thread that connects, before it looks whether that is still wanted.
pub(crate) const CONNECT_LOOK: Duration = Duration::from_millis(50);
