//! Bounds of a run.

use std::time::Duration;

/// Steps of a run that are shown when it fails.
pub(crate) const TRACE_NOTES_MAX: usize = 60;
/// Steps after which a run is taken for one that goes round in circles.
pub(crate) const STEPS_MAX: u64 = 20_000_000;
/// Steps between two looks at the records of the code under test.
pub(crate) const STEPS_PER_INSPECTION: u64 = 32;
/// Longest that a task computes between two waits, in the run's time.
pub(crate) const POLL_COST_NS_MAX: u64 = 2_000;
/// Connections that wait for a listener's process.
pub(crate) const BACKLOG_MAX: usize = 64;
/// First wait before something that was lost is sent again.
pub(crate) const RETRANSMIT: Duration = Duration::from_millis(200);
/// Longest wait before something that was lost is sent again.
pub(crate) const RETRANSMIT_MAX: Duration = Duration::from_secs(20);
/// First wait before a connection is asked for again.
pub(crate) const SYN_RETRANSMIT: Duration = Duration::from_secs(1);
/// Tries after which a kernel gives a connection up.
pub(crate) const RETRANSMISSIONS_MAX: u32 = 15;
/// When a kernel finds that the host at the other end of an idle connection is gone: the bounds of
/// keep-alive.
pub(crate) const KEEP_ALIVE: (Duration, Duration) =
    (Duration::from_secs(2), Duration::from_secs(6));
/// Longest that operations go on after their connection was shut down.
pub(crate) const SHUTTING_MAX: Duration = Duration::from_micros(50);
/// First port that a host hands out by itself.
pub(crate) const FIRST_PORT: u16 = 20_000;
