//! Bounds of moving bytes over TCP. Every queue, wait and retry has its number here.

use perigee_schemas::limits::{SLICE_PAYLOAD_BYTES_MAX, SLICE_PIECES_MAX};
use std::time::Duration;

/// Most pieces in one request, below the kernel's limit of 1024 ranges with room for the frame.
pub const PIECES_MAX: usize = SLICE_PIECES_MAX;
/// Most payload bytes that a peer may ask for in one request.
pub const REQUEST_BYTES_MAX: u64 = SLICE_PAYLOAD_BYTES_MAX;
/// Largest body of a frame in bytes.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// Longest wait for a data connection to be accepted and greeted.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// How long a calling thread watches its socket or batch before it sleeps.
pub const SPIN: Duration = Duration::from_micros(60);
/// How long a caller sleeps before it looks whether the shards it waits for are stalled.
pub const STALL_CHECK: Duration = Duration::from_secs(5);
/// Longest wait for shards to start or stop.
pub const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// Slices on their way on one connection of a calling thread.
pub(crate) const PIPELINED_SLICES_MAX: usize = 8;
/// Connections from one shard to one peer; four saturate memory bandwidth.
pub(crate) const CONNECTIONS_PER_PEER: usize = 4;
/// Idle connections of calling threads kept per peer.
pub(crate) const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long slices to a peer fail at once after it could not be reached or did not greet.
pub(crate) const PEER_BREAKER_OPEN: Duration = Duration::from_millis(250);
/// How long a connection of a shard stays open without work.
pub(crate) const IDLE_CONNECTION: Duration = Duration::from_secs(60);
/// How often a timer looks whether it is still wanted.
pub(crate) const TIMER_LOOK: Duration = Duration::from_secs(1);
/// How long a resolved name is used before it is asked for again.
pub(crate) const NAME_FRESH: Duration = Duration::from_secs(30);
/// How long a name that could not be resolved is not asked for again.
pub(crate) const NAME_RETRY: Duration = Duration::from_secs(2);
/// Names that are remembered.
pub(crate) const NAMES_MAX: usize = 4096;
/// Threads that ask for names at the same time.
pub(crate) const RESOLVERS_MAX: usize = 16;

/// Longest a peer may take for the payload of one request.
pub(crate) const PAYLOAD_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes that unfinished frames of a port, or of one shard's connections, hold.
pub(crate) const FRAME_BUDGET_BYTES: usize = 64 << 20;
/// Data connections that one shard accepts.
pub(crate) const SERVER_CONNECTIONS_MAX: usize = 65_536;
/// Payload that is received together with its frame after a small write: one step less for the
/// next.
pub(crate) const EARLY_BYTES_MAX: usize = 8 << 10;
/// Bytes that are summed before other connections of the shard get their turn.
pub(crate) const SUM_TURN_BYTES: usize = 4 << 20;
/// Bytes of refused writes taken off a connection at a time.
pub(crate) const DISCARD_BYTES: usize = 64 << 10;

const _: () = assert!(PIECES_MAX * 36 + 1024 <= BODY_BYTES_MAX);
