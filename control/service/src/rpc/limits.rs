//! Bounds of the RPC port.

use std::time::Duration;

/// Moves that one call is given at most.
pub(super) const MOVES_PER_FETCH_MAX: usize = 64;
/// Connections that one shard serves at once.
pub(super) const CONNECTIONS_PER_SHARD_MAX: usize = 65_536;
/// Bytes a connection reads at once while it is idle; grows with the frame that comes.
pub(super) const READ_BYTES: usize = 4096;
/// A read buffer larger than this is given back after its frame.
pub(super) const READ_BYTES_KEPT: usize = 256 << 10;
/// Longest a peer may take to finish a frame it has begun, to greet, or to take an answer.
pub(super) const FRAME_DEADLINE: Duration = Duration::from_secs(30);
