//! How shards react to the health that owners report of their disks.
//! Invariant: nothing waits for a disk that is not well, and it gets no copies but single ones that
//! show whether it still is.

use perigee_schemas::DiskHealth;

use crate::settings::OffloadSettings;
use crate::victim::EvictionReason;

use super::KeyShard;

impl KeyShard {
    /// The owner of a disk has said how it is. One that is not well gets no more copies, and those
    /// that it is not writing yet are given up; where nothing can be written all are.
    pub(super) fn note_health(&mut self, disk: u32, health: DiskHealth) {
        self.space.note_health(disk, health, self.stored.clock.now_ms());
        if health == DiskHealth::Healthy {
            return;
        }
        let still_writes = matches!(health, DiskHealth::Slow | DiskHealth::Full);
        let objects = self.tier.on_their_way(disk, !still_writes);
        objects.into_iter().for_each(|object| self.cancel_demotion(object));
    }

    /// Whether nothing is to be evicted before a disk that is well has a copy.
    pub fn puts_wait_for_disks(&self) -> bool {
        self.settings.offload.is_some_and(|offload| !offload.force_evict)
    }

    /// Whether room may come soon because a disk is being given copies, or is going to.
    pub fn awaits_disks(&self, now_ms: u64) -> bool {
        let mut live = self.space.live().iter().filter_map(|segment| self.space.get(*segment));
        let has_soon = |client| self.space.has_disk_soon(client, 1, now_ms);
        self.tier.demotions.len() > 0 || live.any(|share| has_soon(share.spec.client))
    }

    /// Tombstones that come from now on have numbers that are not below this one.
    pub fn tombstone_mark(&self) -> u64 {
        self.tier.tombstones.mark()
    }

    /// Whether a disk that can write has still to make copies void whose tombstones have numbers
    /// below `mark`.
    pub fn awaits_void(&self, mark: u64) -> bool {
        self.space.disks().iter().any(|disk| {
            let can_write =
                matches!(self.space.health(*disk), DiskHealth::Healthy | DiskHealth::Slow);
            can_write && self.tier.tombstones.before(*disk, mark).next().is_some()
        })
    }

    /// How many copies with such tombstones there are on all disks.
    pub fn void_before(&self, mark: u64) -> usize {
        let disks = self.space.disks().iter();
        disks.map(|disk| self.tier.tombstones.before(*disk, mark).count()).sum()
    }

    /// Begins a copy to each disk that has written nothing for long: only a write shows its owner
    /// that there is room again.
    pub(super) fn try_disks(&mut self, offload: &OffloadSettings) {
        let due: Vec<u32> = self.space.disks_to_try(self.stored.clock.now_ms()).collect();
        for disk in due {
            if let Some(id) =
                self.trial_of(disk).filter(|id| self.tier.may_demote(self.view(), *id, offload))
            {
                let Self { tier, stored, space, counters, .. } = &mut *self;
                tier.begin(stored, space, &mut counters.demotions, id, disk, false);
                let health = self.space.health(disk);
                self.space.note_health(disk, health, self.stored.clock.now_ms());
            }
        }
    }

    /// What comes next in the order of eviction in memory of a disk's owner, if that disk can have
    /// a copy.
    fn trial_of(&mut self, disk: u32) -> Option<u32> {
        let client = self.space.get(disk)?.spec.client;
        let is_own = |it: &&u32| self.space.get(**it).is_some_and(|it| it.spec.client == client);
        let own: Vec<u32> = self.space.live().iter().filter(is_own).copied().collect();
        own.into_iter().find_map(|segment| {
            let next = self.next_victim(segment, EvictionReason::LookAhead)?.replica;
            let (hash, generation) = (
                self.stored.keys[self.stored.replicas[next].object].hash(),
                self.stored.replicas[next].generation,
            );
            let is_void = self.tier.tombstones.is_void(disk, hash, generation);
            (self.view().lies_only_there(next) && !is_void).then_some(next)
        })
    }
}
