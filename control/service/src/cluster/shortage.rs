//! Says in the log why puts find no room: what is free to users may still be read, or be written
//! late.

use super::log_pause::LogPause;
use perigee_master::KeyShard;

/// Segments that one line names.
const NAMES_MAX: usize = 8;

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct ShortageLog(LogPause);

impl ShortageLog {
    /// Logs puts of a shard that found no room since the last line.
    pub(super) fn report(&self, index: usize, shard: &KeyShard, now_ms: u64) {
        let Some(puts) = self.0.news(shard.counters().alloc_failures, now_ms) else { return };
        let gauges = shard.gauges();
        tracing::warn!(
            shard = index,
            puts,
            capacity_bytes = gauges.capacity_bytes,
            allocated_bytes = gauges.allocated_bytes,
            parked_bytes = gauges.parked_bytes,
            late_writers_bytes = gauges.staging_bytes,
            disk_bytes = gauges.demoting_bytes,
            largest_object_bytes = shard.largest_object_bytes(),
            closed = closed(shard),
            "No room for puts. Parked bytes were replaced or removed and come free when their \
             readers have finished, or their leases or the time for late writers has run out; disk \
             bytes are being copied to a disk, which keeps puts from them only with \
             --offload_force_evict=false; the others are leased, pinned or being written. \
             Closed segments are drained, being drained or not verified, and take nothing. What is \
             larger than the largest object needs larger segments"
        );
    }
}

/// The names of segments that take nothing.
fn closed(shard: &KeyShard) -> String {
    let names: Vec<&str> = shard.closed_segments().take(NAMES_MAX + 1).collect();
    match names.get(NAMES_MAX) {
        Some(_) => format!("{}, ...", names[..NAMES_MAX].join(", ")),
        None => names.join(", "),
    }
}
