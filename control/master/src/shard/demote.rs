//! What the owner of a disk has to do: demotions, and void copies.
//! Invariant: what eviction takes next is given out first.

use crate::demotion_task::DemotionTask;

use super::KeyShard;

impl KeyShard {
    /// Gives a client up to `limit` objects in its memory to write to its disks, the ones to be
    /// evicted first.
    pub fn take_demotions(&mut self, now_ms: u64, client: u128, limit: usize) -> Vec<DemotionTask> {
        self.begin(now_ms);
        let mut tasks = Vec::new();
        while tasks.len() < limit
            && let Some(task) = self.tier.take(&self.stored, client)
        {
            tasks.push(task);
        }
        tasks
    }

    /// Whether demotions or tombstones wait for a client.
    pub fn has_disk_work(&self, client: u128) -> bool {
        let own =
            |disk: &&u32| self.space.get(**disk).is_some_and(|share| share.spec.client == client);
        self.tier.demotions.is_awaited(client)
            || self
                .space
                .disks()
                .iter()
                .filter(own)
                .any(|disk| self.tier.tombstones.has_some(*disk))
    }
}
