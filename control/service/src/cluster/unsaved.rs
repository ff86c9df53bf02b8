//! Says in the log that objects left memory without a copy on a disk.

use super::log_pause::LogPause;
use perigee_master::KeyShard;

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct UnsavedLog(LogPause);

impl UnsavedLog {
    /// Logs keys of a shard that were evicted without a copy since the last line.
    pub(super) fn report(&self, index: usize, shard: &KeyShard, now_ms: u64) {
        let Some(keys) = self.0.news(shard.counters().unsaved_keys, now_ms) else { return };
        let gauges = shard.gauges();
        tracing::warn!(
            shard = index,
            keys,
            disk_bytes = gauges.demoting_bytes,
            ailing_disks = gauges.ailing_disks,
            "Objects left memory without a copy on a disk: puts needed their room before a disk \
             had them, or their disks are full or not well (`perigee status` says which), or they \
             lie in parts. With --offload_force_evict=false puts wait for disks that are well"
        );
    }
}
