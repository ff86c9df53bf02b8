//! Demotion: what eviction would take goes to a disk of its owner first.
//! Invariant: while an owner may be reading a replica to write it, the replica is not evicted; the
//! demotion ends when the owner says so, with its source, or at its deadline.

use crate::columns::ReplicaState;
use crate::demotion::Demotion;
use crate::demotion_task::DemotionTask;
use crate::limits::{DEMOTION_WAIT_MS, LOOK_AHEAD_RATIO};
use crate::object::Flags;
use crate::settings::OffloadSettings;
use crate::slab::NONE;
use crate::victim::EvictionReason;

use super::KeyShard;
use super::admission::DiskWish;

impl KeyShard {
    /// Gives a client up to `limit` objects in its memory to write to its disks, the ones to be
    /// evicted first.
    pub fn take_demotions(&mut self, now_ms: u64, client: u128, limit: usize) -> Vec<DemotionTask> {
        self.begin(now_ms);
        let mut tasks = Vec::new();
        while tasks.len() < limit
            && let Some(task) = self.take_demotion(client)
        {
            tasks.push(task);
        }
        tasks
    }

    pub(super) fn take_demotion(&mut self, client: u128) -> Option<DemotionTask> {
        let deadline_ms = self.move_deadline_ms(0);
        let (object, demotion) = self.demotions.take(client, deadline_ms)?;
        let record = &self.stored.keys[object];
        Some(DemotionTask {
            key: record.key().into(),
            group: self.stored.groups.name(record.group).unwrap_or_default().into(),
            checksum: record.checksum,
            source: self.stored.replicas[demotion.source].location(ReplicaState::Complete),
            disk: demotion.disk,
        })
    }

    /// Whether demotions or tombstones wait for a client.
    pub fn has_disk_work(&self, client: u128) -> bool {
        let own =
            |disk: &&u32| self.space.get(**disk).is_some_and(|share| share.spec.client == client);
        self.demotions.is_awaited(client)
            || self.space.disks().iter().filter(own).any(|disk| self.tombstones.has_some(*disk))
    }

    /// Whether eviction of a replica loses bytes that a disk was to have.
    pub(super) fn is_disk_wanted(&self, id: u32) -> bool {
        matches!(self.disk_wish(id), DiskWish::To(_) | DiskWish::Soon)
    }

    /// Whether what is evicted from a segment is to have a copy on a disk first.
    pub(super) fn saves_first(&self, segment: u32) -> bool {
        let share = self.space.get(segment);
        let is_kept = self.settings.offload.is_some_and(|offload| !offload.force_evict);
        let has_disk = |client| {
            self.space.disks_for(client, 1).next().is_some()
                || self.space.has_disk_soon(client, 1, self.stored.clock.now_ms())
        };
        is_kept && share.is_some_and(|share| has_disk(share.spec.client))
    }

    /// Whether a replica may be evicted as it is. If a disk is to have a copy first, the copy
    /// begins, unless a put needs the room now and puts wait for no disk.
    pub(super) fn may_lose(&mut self, id: u32, need: EvictionReason) -> bool {
        let Some(offload) = self.settings.offload else {
            return true;
        };
        let going = self.stored.going_with(id);
        if !going.iter().any(|id| self.is_disk_wanted(*id)) {
            return true;
        }
        if offload.force_evict && need.is_put() {
            return true;
        }
        self.demote(&going, true, &offload);
        false
    }

    /// Begins to copy replicas that have no copy on a disk; false if that is too much at the
    /// moment.
    fn demote(&mut self, going: &[u32], is_victim: bool, offload: &OffloadSettings) -> bool {
        let mut begun = false;
        for id in going {
            match self.disk_wish(*id) {
                DiskWish::To(disk) if self.may_demote(*id, offload) => {
                    self.begin_demotion(*id, disk, is_victim);
                    begun = true;
                }
                DiskWish::To(_) | DiskWish::Soon => break,
                DiskWish::None | DiskWish::Refused(_) => {}
            }
        }
        begun
    }

    pub(super) fn may_demote(&self, id: u32, offload: &OffloadSettings) -> bool {
        let replica = &self.stored.replicas[id];
        let usable_bytes = self.space.get(replica.segment).map_or(0, |it| it.usable_bytes());
        let bytes = self.demotions.bytes_of(replica.segment) + replica.extent().bytes;
        self.demotions.len() < (offload.queue_limit / self.settings.count).max(1)
            && bytes as f64 <= offload.cap_ratio * usable_bytes as f64
    }

    pub(super) fn begin_demotion(&mut self, id: u32, disk: u32, is_victim: bool) {
        let replica = &self.stored.replicas[id];
        let object = replica.object;
        debug_assert!(!self.stored.keys[object].flags.has(Flags::DEMOTING), "one at a time");
        let deadline_ms = self.stored.clock.now_ms().saturating_add(DEMOTION_WAIT_MS);
        let waiting = Demotion::waiting(self.view().carrier_of(id), disk, id, deadline_ms);
        let (lane, generation) = (replica.lane(), replica.generation);
        let bytes = replica.extent().bytes;
        self.stored.keys[object].flags.set(Flags::DEMOTING, true);
        self.stored.refresh_blocking(object);
        let list = self.stored.list_of(object);
        self.stored.relink(object, list);
        let stamp = self.stored.groups.touched(&self.stored.keys[object]).stamp;
        self.space.count_coming(disk, bytes as i64);
        self.space.count_turn(self.view().carrier_of(id), disk, bytes);
        if let Some(budgets) = &mut self.budgets {
            budgets.take(self.space.disk_id(disk), bytes);
        }
        self.demotions
            .begin(object, Demotion { lane, generation, bytes, is_victim, stamp, ..waiting });
        self.counters.demotions.started += 1;
    }

    /// A demotion is over: its source may be evicted, before others if it was to be and was not
    /// touched since.
    pub(super) fn end_demotion(&mut self, object: u32) -> Option<Demotion> {
        let ended = self.demotions.end(object)?;
        self.space.count_coming(ended.disk, -(ended.bytes as i64));
        let was_touched =
            self.stored.groups.touched(&self.stored.keys[object]).stamp != ended.stamp;
        self.stored.keys[object].flags.set(Flags::DEMOTING, false);
        self.stored.refresh_blocking(object);
        let is_ready = ended.is_victim && !was_touched;
        let is_there =
            |id: u32| self.stored.replicas.chain(self.stored.keys[object].first).any(|it| it == id);
        if is_ready && is_there(ended.source) {
            self.stored.make_ready(ended.source);
        } else if self.stored.keys[object].first != NONE {
            let list = self.stored.list_of(object);
            self.stored.relink(object, list);
        }
        Some(ended)
    }

    /// A demotion comes to nothing. What its owner may have written already is void.
    pub(super) fn cancel_demotion(&mut self, object: u32) {
        let hash = self.stored.keys[object].hash();
        if let Some(ended) = self.end_demotion(object) {
            self.counters.demotions.revoked += 1;
            match ended.is_taken {
                true => self.bury(ended.disk, hash, ended.generation),
                false => self.give_budget_back(&ended),
            }
        }
    }

    /// An object that was to have a copy has one, on this disk and of this generation. What is
    /// written all the same is void, unless a tombstone for it would name that copy too.
    pub(super) fn end_needless_demotion(&mut self, object: u32, copy: (u32, u64)) {
        let under_way = self.demotions.of(object);
        match under_way.is_some_and(|it| it.is_taken && (it.disk, it.generation) == copy) {
            true => {
                self.end_demotion(object);
                self.counters.demotions.revoked += 1;
            }
            false => self.cancel_demotion(object),
        }
    }

    /// Gives up demotions whose deadline has passed; returns what is left of the budget.
    pub(super) fn give_up_demotions(&mut self, mut budget: usize) -> usize {
        while budget > 0
            && let Some(object) = self.demotions.overdue(self.stored.clock.now_ms())
        {
            self.cancel_demotion(object);
            budget -= 1;
        }
        budget
    }

    /// Gives up the demotions to a disk that is gone.
    pub(super) fn leave_disk(&mut self, disk: u32) {
        let to_it = self.demotions.iter().filter(|(_, demotion)| demotion.disk == disk);
        let objects: Vec<u32> = to_it.map(|(object, _)| object).collect();
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
            while budget > 0 && self.lacks_ready(segment) {
                budget -= 1;
                let next = self.next_victim(segment, EvictionReason::LookAhead);
                if !next.is_some_and(|next| self.prepare(next.replica, &offload)) {
                    break;
                }
            }
        }
        self.look_ahead_of_tenants(budget, &offload)
    }

    /// Takes the next in the order of eviction out of it: it is copied, or ready to go. False if
    /// no more may be copied now.
    pub(super) fn prepare(&mut self, next: u32, offload: &OffloadSettings) -> bool {
        let going = self.stored.going_with(next);
        if going.iter().any(|id| self.is_disk_wanted(*id)) {
            return self.demote(&going, true, offload);
        }
        self.stored.make_ready(next);
        true
    }

    /// Whether less is ready to go, or on its way, than a margin below the watermark.
    fn lacks_ready(&self, segment: u32) -> bool {
        let Some(share) = self.space.get(segment) else {
            return false;
        };
        let quarantined_bytes = self.space.quarantine().bytes_of(segment);
        let used_bytes = share.allocator.used().saturating_sub(quarantined_bytes);
        let ratio = (self.settings.watermark_ratio - LOOK_AHEAD_RATIO).max(0.0);
        let kept_bytes = (ratio * share.usable_bytes() as f64) as u64;
        let stock_bytes =
            self.stored.replicas.ready_bytes(segment) + self.demotions.bytes_of(segment);
        used_bytes > kept_bytes.saturating_add(stock_bytes)
    }

    /// A put has ended: without `on_evict` its bytes go to a disk at once.
    pub(super) fn demote_early(&mut self, id: u32) {
        if let Some(offload) = self.settings.offload.filter(|it| !it.on_evict) {
            self.demote(&[id], false, &offload);
        }
    }
}
