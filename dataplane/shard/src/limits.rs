//! Bounds and defaults of executors.

use std::time::Duration;

/// How long a shard polls after the last completion before it sleeps.
pub const POLL_DEFAULT: Duration = Duration::from_micros(150);
/// Pause after the kernel gave no connection, for example for want of descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often a wait on a stream looks whether the peer's host has vanished.
pub(crate) const VANISHED_LOOK: Duration = Duration::from_secs(1);
/// Descriptors that accepted connections leave to everything else in the process, but not more than
/// half of all.
pub(crate) const DESCRIPTORS_SPARED: usize = 448;
/// Refused connections are logged again after so long without any.
pub(crate) const TROUBLE_EPISODE: Duration = Duration::from_secs(60);
/// Descriptors that one executor needs at its start: its rings, its bell and its timers.
pub(crate) const EXECUTOR_DESCRIPTORS: u64 = 16;
/// Memory glommio may register for its own file I/O, in bytes; ours goes through our ring.
pub(crate) const GLOMMIO_MEMORY_BYTES: usize = 64 << 10;
/// Entries of glommio's own rings.
pub(crate) const GLOMMIO_RING_ENTRIES: usize = 64;
/// Longest wait for an executor thread to come up.
pub(crate) const START_DEADLINE: Duration = Duration::from_secs(10);
/// Jobs taken from the mailbox before the reactor gets its turn again.
pub(crate) const JOBS_PER_TURN: usize = 64;
/// Dropped timers that the heap may keep beyond as many as still wait.
pub(crate) const STALE_TIMERS_MAX: usize = 64;
/// For how long a reading of the scheduler's books stands for a thread's waits.
pub(crate) const CORE_WAIT_FRESH: Duration = Duration::from_millis(5);
