//! Bounds of the RPC port.

use std::time::Duration;

/// Moves that one call is given at most.
pub(super) const MOVES_PER_FETCH_MAX: usize = 64;
/// Demotions that one call is given at most.
pub(super) const DEMOTIONS_PER_FETCH_MAX: usize = 1024;
/// Tombstones that one call is given at most.
pub(super) const TOMBSTONES_PER_FETCH_MAX: usize = 16_384;
/// Ranges without memory that one heartbeat may tell of.
pub(super) const UNBACKED_PER_CLIENT_MAX: usize = 1024;
/// Disks that one heartbeat may tell of.
pub(super) const DISK_REPORTS_PER_CLIENT_MAX: usize = 64;
/// Connections that one shard serves at once.
pub(super) const CONNECTIONS_PER_SHARD_MAX: usize = 65_536;
/// Bytes that a connection may receive behind a short frame: the next calls of a client that does
/// not wait for answers.
pub(super) const AHEAD_BYTES: usize = 4096;
/// Bytes that unfinished frames of all connections hold at most.
pub(super) const UNFINISHED_FRAME_BYTES_MAX: usize = 256 << 20;
/// How long a connection may be silent on which no client has mounted or pinged. Clients reopen
/// theirs without an error.
pub(super) const STRANGER_IDLE: Duration = Duration::from_secs(120);
