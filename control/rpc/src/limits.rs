//! Bounds of calls to the master.

use std::time::Duration;

/// Longest a call may take, connecting included.
pub const CALL_DEADLINE: Duration = Duration::from_secs(5);
/// Longest a heartbeat may take.
pub(crate) const PING_DEADLINE: Duration = Duration::from_secs(2);
/// Longest a farewell may take: closing must not hang on it.
pub(crate) const LEAVE_DEADLINE: Duration = Duration::from_millis(500);
/// Longest wait for a connection to be accepted.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// How long a caller watches its socket before it sleeps: a polling master answers within this.
pub(crate) const SPIN: Duration = Duration::from_micros(60);
/// Connections kept for reuse.
pub(crate) const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long calls fail at once after the master could not be reached in time.
pub(crate) const BREAKER_OPEN: Duration = Duration::from_millis(500);
/// Read leases that wait to be given back; more are left to end by time.
pub(crate) const LEASES_WAITING_MAX: usize = 1 << 16;
/// Most leases that go with one call.
pub(crate) const LEASES_PER_CALL: usize = 8192;
/// Up to so many go behind the request: its answer does not wait for them, and they fit into any
/// socket's buffer.
pub(crate) const LEASES_BEHIND_MAX: usize = 64;
/// A read buffer larger than this is not kept with an idle connection.
pub(crate) const IDLE_BUFFER_BYTES_MAX: usize = 1 << 20;
