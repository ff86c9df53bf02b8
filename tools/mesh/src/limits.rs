//! Bounds of measurements. Invariant: whatever the other end does, a server spends no more than
//! these on it.

use std::time::Duration;

/// Port that servers listen on, and that they measure towards.
pub const PORT: u16 = 9306;
/// Most connections of one direction that carry the load.
pub const STREAMS_MAX: u32 = 16;
/// Most datagrams of one measurement.
pub const PROBES_MAX: u32 = 20_000;
/// Longest load in one direction.
pub const WHOLE_LOAD_MAX: Duration = Duration::from_secs(5);

/// Longest line of the protocol.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;
/// Longest wait for a connection.
pub(crate) const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// Longest wait for an answer that costs no measuring.
pub(crate) const ANSWER_DEADLINE: Duration = Duration::from_secs(5);
/// Longest wait for the next line of a session.
pub(crate) const IDLE_DEADLINE: Duration = Duration::from_secs(30);
/// Longest session.
pub(crate) const SESSION_DEADLINE: Duration = Duration::from_secs(60);
/// Longest wait until both ends of a link are free for it.
pub(crate) const BUSY_DEADLINE: Duration = Duration::from_secs(120);
/// How long a refused session waits before it asks again, unless the server says so.
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// Connections at the same time; more are closed.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// How often the listening thread looks whether it is to end.
pub(crate) const STOP_LOOK: Duration = Duration::from_millis(250);
/// In each [`LOAD_WINDOW`] a server is under load for at most so long.
pub(crate) const LOAD_PER_WINDOW: Duration = Duration::from_secs(30);
/// See [`LOAD_PER_WINDOW`].
pub(crate) const LOAD_WINDOW: Duration = Duration::from_secs(60);
/// Exchanges for the round trip.
pub(crate) const ROUND_TRIPS_MAX: usize = 200;
/// Longest time for them.
pub(crate) const ROUND_TRIPS_TIME: Duration = Duration::from_millis(300);
/// Bytes of a datagram that looks for loss.
pub(crate) const PROBE_BYTES: usize = 1024;
/// Datagrams whose answers are still to come.
pub(crate) const PROBES_IN_FLIGHT: usize = 32;
/// An answer that has not come after so long beside a round trip is lost.
pub(crate) const PROBE_DEADLINE: Duration = Duration::from_millis(60);
/// Longest time for all datagrams of a measurement.
pub(crate) const PROBES_TIME: Duration = Duration::from_secs(3);
/// Tries before a frame size is taken for one that does not pass.
pub(crate) const FRAME_TRIES: usize = 4;
/// Smallest frame that every way carries.
pub(crate) const FRAME_BYTES_MIN: u32 = 576;
/// Bytes that are written or read at once.
pub(crate) const PIECE_BYTES: usize = 256 << 10;
/// Beside the time of the load, for what is still in queues.
pub(crate) const LOAD_MARGIN: Duration = Duration::from_secs(1);
/// NICs of a host that are shown.
pub(crate) const NICS_MAX: usize = 64;
/// Measurements of a link that its baseline is the median of.
pub(crate) const KEPT_READINGS: usize = 5;
/// Links in a file of baselines; further ones are not kept.
pub(crate) const KEPT_LINKS_MAX: usize = 65_536;
/// Largest file of baselines.
pub(crate) const BASELINE_BYTES_MAX: u64 = 64 << 20;
