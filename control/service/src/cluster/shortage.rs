//! Says in the log why puts find no room: what is free to users may still be read, or be written late.
//! Invariant: at most one line per pause and shard, and every failed put is in one of them.

use super::control_shard::ControlShard;
use perigee_shard::Environment;
use std::cell::Cell;

/// Milliseconds between two lines.
const LOG_PAUSE_MS: u64 = 10_000;

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    failures: Cell<u64>,
    next_ms: Cell<u64>,
}

impl<E: Environment> ControlShard<E> {
    /// Logs puts that found no room since the last line.
    pub(super) fn report_shortage(&self) {
        let keys = self.keys.borrow();
        let failures = keys.counters().alloc_failures;
        let puts = failures - self.shortage.failures.get();
        let now_ms = self.now_ms();
        if puts == 0 || now_ms < self.shortage.next_ms.get() {
            return;
        }
        self.shortage.failures.set(failures);
        self.shortage.next_ms.set(now_ms + LOG_PAUSE_MS);
        let gauges = keys.gauges();
        tracing::warn!(
            shard = self.index,
            puts,
            capacity_bytes = gauges.capacity_bytes,
            allocated_bytes = gauges.allocated_bytes,
            parked_bytes = gauges.parked_bytes,
            late_writers_bytes = gauges.staging_bytes,
            "No room for puts. Parked bytes were replaced or removed and come free when their readers have finished, or \
             their leases or the time for late writers has run out; the others are leased, pinned or being written"
        );
    }
}
