//! Demotion: what eviction would take goes to a disk of its owner first.
//! Invariant: while an owner may be reading a replica to write it, the replica is not evicted; the
//! demotion ends when the owner says so, with its source, or at its deadline.

use crate::demotion_task::DemotionTask;
use crate::victim::EvictionReason;

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

    /// A demotion comes to nothing. What its owner may have written already is void.
    pub(super) fn cancel_demotion(&mut self, object: u32) {
        let hash = self.stored.keys[object].hash();
        if let Some(ended) = self.tier.end(&mut self.stored, &mut self.space, object) {
            self.counters.demotions.revoked += 1;
            match ended.is_taken {
                true => self.bury(ended.disk, hash, ended.generation),
                false => self.tier.give_budget_back(&self.space, &ended),
            }
        }
    }

    /// An object that was to have a copy has one, on this disk and of this generation. What is
    /// written all the same is void, unless a tombstone for it would name that copy too.
    pub(super) fn end_needless_demotion(&mut self, object: u32, copy: (u32, u64)) {
        let under_way = self.tier.demotions.of(object);
        match under_way.is_some_and(|it| it.is_taken && (it.disk, it.generation) == copy) {
            true => {
                self.tier.end(&mut self.stored, &mut self.space, object);
                self.counters.demotions.revoked += 1;
            }
            false => self.cancel_demotion(object),
        }
    }

    /// Gives up demotions whose deadline has passed; returns what is left of the budget.
    pub(super) fn give_up_demotions(&mut self, mut budget: usize) -> usize {
        while budget > 0
            && let Some(object) = self.tier.demotions.overdue(self.stored.clock.now_ms())
        {
            self.cancel_demotion(object);
            budget -= 1;
        }
        budget
    }

    /// Gives up the demotions to a disk that is gone.
    pub(super) fn leave_disk(&mut self, disk: u32) {
        let objects = self.tier.on_their_way(disk, true);
        objects.into_iter().for_each(|object| self.cancel_demotion(object));
    }

    /// Begins to copy what comes next in the order of eviction, so that eviction finds what has a
    /// copy; returns what is left of the budget. Without `on_evict` most has one; the rest was put
    /// while the disk was away or had too much to do, or lost its copy there.
    pub(super) fn look_ahead(&mut self, mut budget: usize) -> usize {
        let Some(offload) = self.settings.offload else {
            return budget;
        };
        if self.space.disks().is_empty() {
            return budget;
        }
        self.try_disks(&offload);
        for segment in self.space.live().to_vec() {
            while budget > 0 && self.tier.lacks_ready(self.view(), segment) {
                budget -= 1;
                let next = self.next_victim(segment, EvictionReason::LookAhead);
                let Some(next) = next else {
                    break;
                };
                let Self { tier, stored, space, counters, .. } = self;
                if !tier.prepare(stored, space, &mut counters.demotions, next.replica, &offload) {
                    break;
                }
            }
        }
        self.look_ahead_of_tenants(budget, &offload)
    }
}
