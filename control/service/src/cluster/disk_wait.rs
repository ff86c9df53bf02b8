//! Puts that wait for disks, where nothing is to be evicted without a copy there.
//! Invariant: only while copies are under way on the shard of the key, and a short time at most.

use super::control_shard::ControlShard;
use super::lending::Startable;
use super::merge::Placements;
use perigee_master::{Effort, shard_of};
use perigee_shard::Environment;
use std::sync::Arc;
use std::time::Duration;

/// Longest that a put waits for disks to have copies of what it would evict, in milliseconds.
const WAIT_MS: u64 = 2_000;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(5);

impl<E: Environment> ControlShard<E> {
    /// Tries puts that found no room again while disks are being given copies.
    pub(super) async fn wait_for_disks(
        &self,
        keys: &[&[u8]],
        mut started: Placements,
        puts: &Arc<impl Startable>,
    ) -> Placements {
        let until_ms = self.now_ms() + WAIT_MS;
        loop {
            let short = started.short();
            if short.is_empty() {
                return started;
            }
            let waits = self.now_ms() < until_ms && self.disks_copy_for(keys, &short).await;
            let effort = if waits { Effort::Evict } else { Effort::Last };
            if waits {
                self.environment.sleep(PAUSE).await;
            }
            let again = self.try_start(keys, &short, puts, move |_, _| effort).await;
            started = started.replaced(&short, again);
            if !waits {
                return started;
            }
        }
    }

    /// Whether copies are under way on a shard of one of these keys.
    async fn disks_copy_for(&self, keys: &[&[u8]], short: &[usize]) -> bool {
        let count = self.members().len();
        let mut owners: Vec<usize> = short.iter().map(|at| shard_of(keys[*at], count)).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            let ask = |owner: &Self| owner.keys.borrow().awaits_disks(owner.now_ms());
            if self.on(owner, ask).await.flatten().unwrap_or_default() {
                return true;
            }
        }
        false
    }
}
