//! Says in the log that objects left memory without a copy on a disk.
//! Invariant: at most one line per pause and shard, and every key is in one of them.

use perigee_master::KeyShard;
use std::cell::Cell;

/// Milliseconds between two lines.
const LOG_PAUSE_MS: u64 = 10_000;

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct UnsavedLog {
    keys: Cell<u64>,
    next_ms: Cell<u64>,
}

impl UnsavedLog {
    /// Logs keys of a shard that were evicted without a copy since the last line.
    pub(super) fn report(&self, index: usize, shard: &KeyShard, now_ms: u64) {
        let unsaved = shard.counters().unsaved_keys;
        let keys = unsaved - self.keys.get();
        if keys == 0 || now_ms < self.next_ms.get() {
            return;
        }
        self.keys.set(unsaved);
        self.next_ms.set(now_ms + LOG_PAUSE_MS);
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
