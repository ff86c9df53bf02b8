//! Demotions, step by step: what eviction would take goes to a disk of its owner first.
//! Invariant: while an owner may be reading a replica to write it, the replica is not evicted; the
//! demotion ends when the owner says so, with its source, or at its deadline.

#[cfg(test)]
mod tests;

use perigee_schemas::DiskHealth;

use crate::counters::ShardCounters;
use crate::demotion::Demotion;
use crate::demotion_task::DemotionTask;
use crate::disk_tier::DiskTier;
use crate::disk_wish::DiskWish;
use crate::leaving::LeavingClient;
use crate::limits::DEMOTION_WAIT_MS;
use crate::object::Flags;
use crate::outbox::Outbox;
use crate::read_view::ReadView;
use crate::settings::OffloadSettings;
use crate::slab::NONE;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::victim::EvictionReason;

/// The tier of disks, with what its steps change beside it.
pub(crate) struct Demoting<'a> {
    pub(crate) tier: &'a mut DiskTier,
    pub(crate) stored: &'a mut StoredObjects,
    pub(crate) space: &'a mut Space,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) counters: &'a mut ShardCounters,
}

impl Demoting<'_> {
    fn view(&self) -> ReadView<'_> {
        ReadView { stored: self.stored, space: self.space }
    }

    /// Whether a replica may be evicted as it is. If a disk is to have a copy first, the copy
    /// begins, unless a put needs the room now and puts wait for no disk.
    pub(crate) fn may_lose(&mut self, id: u32, need: EvictionReason) -> bool {
        let Some(offload) = self.tier.offload else {
            return true;
        };
        let going = self.stored.going_with(id);
        if !going.iter().any(|id| self.tier.is_wanted(self.view(), *id)) {
            return true;
        }
        if offload.force_evict && need.is_put() {
            return true;
        }
        self.demote(&going, true, &offload);
        false
    }

    /// Takes the next in the order of eviction out of it: it is copied, or ready to go. False if
    /// no more may be copied now.
    pub(crate) fn prepare(&mut self, next: u32, offload: &OffloadSettings) -> bool {
        let going = self.stored.going_with(next);
        if going.iter().any(|id| self.tier.is_wanted(self.view(), *id)) {
            return self.demote(&going, true, offload);
        }
        self.stored.make_ready(next);
        true
    }

    /// A put has ended: without `on_evict` its bytes go to a disk at once.
    pub(crate) fn demote_early(&mut self, id: u32) {
        if let Some(offload) = self.tier.offload.filter(|it| !it.on_evict) {
            self.demote(&[id], false, &offload);
        }
    }

    /// Begins to copy replicas that have no copy on a disk; false if that is too much at the
    /// moment.
    fn demote(&mut self, going: &[u32], is_victim: bool, offload: &OffloadSettings) -> bool {
        let mut begun = false;
        for id in going {
            match self.tier.wish(self.view(), *id) {
                DiskWish::To(disk) if self.tier.may_demote(self.view(), *id, offload) => {
                    self.begin(*id, disk, is_victim);
                    begun = true;
                }
                DiskWish::To(_) | DiskWish::Soon => break,
                DiskWish::None | DiskWish::Refused(_) => {}
            }
        }
        begun
    }

    pub(crate) fn begin(&mut self, id: u32, disk: u32, is_victim: bool) {
        let replica = &self.stored.replicas[id];
        let object = replica.object;
        debug_assert!(!self.stored.keys[object].flags.has(Flags::DEMOTING), "one at a time");
        let deadline_ms = self.stored.clock.now_ms().saturating_add(DEMOTION_WAIT_MS);
        let client = self.view().carrier_of(id);
        let waiting = Demotion::waiting(client, disk, id, deadline_ms);
        let (lane, generation) = (replica.lane(), replica.generation);
        let bytes = replica.extent().bytes;
        self.stored.keys[object].flags.set(Flags::DEMOTING, true);
        self.stored.refresh_blocking(object);
        let list = self.stored.list_of(object);
        self.stored.relink(object, list);
        let stamp = self.stored.groups.touched(&self.stored.keys[object]).stamp;
        self.space.count_coming(disk, bytes as i64);
        self.space.count_turn(client, disk, bytes);
        if let Some(budgets) = &mut self.tier.budgets {
            budgets.take(self.space.disk_id(disk), bytes);
        }
        self.tier
            .demotions
            .begin(object, Demotion { lane, generation, bytes, is_victim, stamp, ..waiting });
        self.counters.demotions.started += 1;
    }

    /// A demotion is over: its source may be evicted, before others if it was to be and was not
    /// touched since.
    pub(crate) fn end(&mut self, object: u32) -> Option<Demotion> {
        let ended = self.tier.demotions.end(object)?;
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

    /// What waits already, or else the next of what was found.
    pub(crate) fn next_last(
        &mut self,
        client: u128,
        found: Option<&mut LeavingClient>,
    ) -> Option<DemotionTask> {
        if let Some(task) = self.tier.take(self.stored, client) {
            return Some(task);
        }
        let found = found?;
        while let Some(next) = found.pop() {
            match self.tier.last_wish(self.view(), &next) {
                Some(DiskWish::To(disk)) => {
                    self.begin(next.replica, disk, false);
                    return self.tier.take(self.stored, client);
                }
                // Its owner has not answered for the disk yet.
                Some(DiskWish::Soon) => {
                    found.push(next);
                    return None;
                }
                Some(DiskWish::None | DiskWish::Refused(_)) | None => {}
            }
        }
        None
    }

    /// A demotion comes to nothing. What its owner may have written already is void.
    pub(crate) fn cancel(&mut self, object: u32) {
        let hash = self.stored.keys[object].hash();
        if let Some(ended) = self.end(object) {
            self.counters.demotions.revoked += 1;
            match ended.is_taken {
                true => self.bury(ended.disk, hash, ended.generation),
                false => self.tier.give_budget_back(self.space, &ended),
            }
        }
    }

    /// An object that was to have a copy has one, on this disk and of this generation. What is
    /// written all the same is void, unless a tombstone for it would name that copy too.
    pub(crate) fn end_needless(&mut self, object: u32, copy: (u32, u64)) {
        let under_way = self.tier.demotions.of(object);
        match under_way.is_some_and(|it| it.is_taken && (it.disk, it.generation) == copy) {
            true => {
                self.end(object);
                self.counters.demotions.revoked += 1;
            }
            false => self.cancel(object),
        }
    }

    /// Gives up demotions whose deadline has passed; returns what is left of the budget.
    pub(crate) fn give_up(&mut self, mut budget: usize) -> usize {
        while budget > 0
            && let Some(object) = self.tier.demotions.overdue(self.stored.clock.now_ms())
        {
            self.cancel(object);
            budget -= 1;
        }
        budget
    }

    /// Gives up the demotions to a disk that is gone.
    pub(crate) fn leave_disk(&mut self, disk: u32) {
        let objects = self.tier.on_their_way(disk, true);
        objects.into_iter().for_each(|object| self.cancel(object));
    }

    /// A copy that a disk has, or may have, is void from now on.
    pub(crate) fn bury(&mut self, disk: u32, hash: u64, generation: u64) {
        let id = self.space.get(disk).map_or(0, |share| share.spec.id);
        if !self.tier.tombstones.note(disk, id, hash, generation) {
            self.counters.tombstones_overrun += 1;
        }
        self.outbox.note_void(self.space, disk, generation);
    }

    /// Drops a copy that is in no chain any more, with a tombstone unless the disk is gone or its
    /// log has moved on.
    pub(crate) fn drop_copy(&mut self, id: u32) {
        let replica = &self.stored.replicas[id];
        let (disk, generation) = (replica.segment, replica.generation);
        let hash = self.stored.keys.get(replica.object).map_or(0, |record| record.hash());
        let is_there = self.view().is_readable(id);
        self.space.count_copy(disk, -(replica.payload_bytes as i64));
        self.stored.replicas.unlink(id);
        self.stored.replicas.remove(id);
        if is_there {
            self.bury(disk, hash, generation);
        } else if !self.space.is_readable(disk) {
            self.tier.tombstones.note_left_copy(hash);
        }
    }

    /// The owner of a disk has said how it is. One that is not well gets no more copies, and those
    /// that it is not writing yet are given up; where nothing can be written all are.
    pub(crate) fn note_health(&mut self, disk: u32, health: DiskHealth) {
        self.space.note_health(disk, health, self.stored.clock.now_ms());
        if health == DiskHealth::Healthy {
            return;
        }
        let still_writes = matches!(health, DiskHealth::Slow | DiskHealth::Full);
        let objects = self.tier.on_their_way(disk, !still_writes);
        objects.into_iter().for_each(|object| self.cancel(object));
    }
}
