//! Removals of everything wait until disks have made void for good what they had.
//! Invariant: only for disks that can write, and a short time at most.

use super::control_shard::ControlShard;
use perigee_shard::Environment;
use std::time::Duration;

/// Longest wait for the owners of disks, well within the deadline of a call. They hear of it with
/// their next heartbeat, and write some twenty thousand names a second.
const WAIT_MS: u64 = 3_000;
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

impl<E: Environment> ControlShard<E> {
    /// Waits until no copy that is void by now could come back from a disk that can write, after
    /// whatever end of the master and of its owner.
    pub(crate) async fn wait_until_void(&self) {
        let until_ms = self.now_ms() + WAIT_MS;
        let mut left = 0;
        for index in 0..self.members().len() {
            let mark = self.on(index, |shard| shard.keys.borrow().tombstone_mark());
            let Some(mark) = mark.await.flatten() else {
                continue;
            };
            left += self.wait_on(index, mark, until_ms).await;
        }
        if left > 0 {
            tracing::warn!(
                copies = left,
                "All was removed, but disks have not made all of it void yet: if the master and \
                 their owners end now, these copies may come back. `perigee status` says which \
                 disks are not well"
            );
        }
    }

    /// How many copies are left at the end of the wait for one shard.
    async fn wait_on(&self, index: usize, mark: u64, until_ms: u64) -> usize {
        let waits = move |shard: &Self| shard.keys.borrow().awaits_void(mark);
        while self.now_ms() < until_ms && self.on(index, waits).await.flatten().unwrap_or_default()
        {
            self.environment.sleep(PAUSE).await;
        }
        let left = self.on(index, move |shard| shard.keys.borrow().void_before(mark));
        left.await.flatten().unwrap_or_default()
    }
}
