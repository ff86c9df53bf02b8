//! Demotions begin and end: what eviction would take goes to a disk of its owner first.
//! Invariant: while an owner may be reading a replica to write it, the replica is not evicted.

use crate::columns::ReplicaState;
use crate::counters::RelocationCounts;
use crate::demotion::Demotion;
use crate::demotion_task::DemotionTask;
use crate::disk_wish::DiskWish;
use crate::limits::{DEMOTION_WAIT_MS, LOOK_AHEAD_RATIO};
use crate::moving::move_deadline_ms;
use crate::object::Flags;
use crate::read_view::ReadView;
use crate::settings::OffloadSettings;
use crate::slab::NONE;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::tenant::TenantNumber;
use crate::victim::EvictionReason;

use super::DiskTier;

impl DiskTier {
    /// Whether a replica may be evicted as it is. If a disk is to have a copy first, the copy
    /// begins, unless a put needs the room now and puts wait for no disk.
    pub(crate) fn may_lose(
        &mut self,
        stored: &mut StoredObjects,
        space: &mut Space,
        counts: &mut RelocationCounts,
        id: u32,
        need: EvictionReason,
    ) -> bool {
        let Some(offload) = self.offload else {
            return true;
        };
        let going = stored.going_with(id);
        if !going.iter().any(|id| self.is_wanted(ReadView { stored, space }, *id)) {
            return true;
        }
        if offload.force_evict && need.is_put() {
            return true;
        }
        self.demote(stored, space, counts, &going, true, &offload);
        false
    }

    /// Takes the next in the order of eviction out of it: it is copied, or ready to go. False if
    /// no more may be copied now.
    pub(crate) fn prepare(
        &mut self,
        stored: &mut StoredObjects,
        space: &mut Space,
        counts: &mut RelocationCounts,
        next: u32,
        offload: &OffloadSettings,
    ) -> bool {
        let going = stored.going_with(next);
        if going.iter().any(|id| self.is_wanted(ReadView { stored, space }, *id)) {
            return self.demote(stored, space, counts, &going, true, offload);
        }
        stored.make_ready(next);
        true
    }

    /// A put has ended: without `on_evict` its bytes go to a disk at once.
    pub(crate) fn demote_early(
        &mut self,
        stored: &mut StoredObjects,
        space: &mut Space,
        counts: &mut RelocationCounts,
        id: u32,
    ) {
        if let Some(offload) = self.offload.filter(|it| !it.on_evict) {
            self.demote(stored, space, counts, &[id], false, &offload);
        }
    }

    /// Begins to copy replicas that have no copy on a disk; false if that is too much at the
    /// moment.
    pub(super) fn demote(
        &mut self,
        stored: &mut StoredObjects,
        space: &mut Space,
        counts: &mut RelocationCounts,
        going: &[u32],
        is_victim: bool,
        offload: &OffloadSettings,
    ) -> bool {
        let mut begun = false;
        for id in going {
            match self.wish(ReadView { stored, space }, *id) {
                DiskWish::To(disk) if self.may_demote(ReadView { stored, space }, *id, offload) => {
                    self.begin(stored, space, counts, *id, disk, is_victim);
                    begun = true;
                }
                DiskWish::To(_) | DiskWish::Soon => break,
                DiskWish::None | DiskWish::Refused(_) => {}
            }
        }
        begun
    }

    pub(crate) fn may_demote(
        &self,
        view: ReadView<'_>,
        id: u32,
        offload: &OffloadSettings,
    ) -> bool {
        let replica = &view.stored.replicas[id];
        let usable_bytes = view.space.get(replica.segment).map_or(0, |it| it.usable_bytes());
        let bytes = self.demotions.bytes_of(replica.segment) + replica.extent().bytes;
        self.demotions.len() < (offload.queue_limit / self.shards).max(1)
            && bytes as f64 <= offload.cap_ratio * usable_bytes as f64
    }

    pub(crate) fn begin(
        &mut self,
        stored: &mut StoredObjects,
        space: &mut Space,
        counts: &mut RelocationCounts,
        id: u32,
        disk: u32,
        is_victim: bool,
    ) {
        let replica = &stored.replicas[id];
        let object = replica.object;
        debug_assert!(!stored.keys[object].flags.has(Flags::DEMOTING), "one at a time");
        let deadline_ms = stored.clock.now_ms().saturating_add(DEMOTION_WAIT_MS);
        let client = ReadView { stored, space }.carrier_of(id);
        let waiting = Demotion::waiting(client, disk, id, deadline_ms);
        let (lane, generation) = (replica.lane(), replica.generation);
        let bytes = replica.extent().bytes;
        stored.keys[object].flags.set(Flags::DEMOTING, true);
        stored.refresh_blocking(object);
        let list = stored.list_of(object);
        stored.relink(object, list);
        let stamp = stored.groups.touched(&stored.keys[object]).stamp;
        space.count_coming(disk, bytes as i64);
        space.count_turn(client, disk, bytes);
        if let Some(budgets) = &mut self.budgets {
            budgets.take(space.disk_id(disk), bytes);
        }
        self.demotions
            .begin(object, Demotion { lane, generation, bytes, is_victim, stamp, ..waiting });
        counts.started += 1;
    }

    /// A demotion is over: its source may be evicted, before others if it was to be and was not
    /// touched since.
    pub(crate) fn end(
        &mut self,
        stored: &mut StoredObjects,
        space: &mut Space,
        object: u32,
    ) -> Option<Demotion> {
        let ended = self.demotions.end(object)?;
        space.count_coming(ended.disk, -(ended.bytes as i64));
        let was_touched = stored.groups.touched(&stored.keys[object]).stamp != ended.stamp;
        stored.keys[object].flags.set(Flags::DEMOTING, false);
        stored.refresh_blocking(object);
        let is_ready = ended.is_victim && !was_touched;
        let is_there =
            |id: u32| stored.replicas.chain(stored.keys[object].first).any(|it| it == id);
        if is_ready && is_there(ended.source) {
            stored.make_ready(ended.source);
        } else if stored.keys[object].first != NONE {
            let list = stored.list_of(object);
            stored.relink(object, list);
        }
        Some(ended)
    }

    pub(crate) fn take(&mut self, stored: &StoredObjects, client: u128) -> Option<DemotionTask> {
        let deadline_ms = move_deadline_ms(stored.clock.now_ms(), 0);
        let (object, demotion) = self.demotions.take(client, deadline_ms)?;
        let record = &stored.keys[object];
        Some(DemotionTask {
            key: record.key().into(),
            group: stored.groups.name(record.group).unwrap_or_default().into(),
            checksum: record.checksum,
            source: stored.replicas[demotion.source].location(ReplicaState::Complete),
            disk: demotion.disk,
        })
    }

    /// Whether less is ready to go, or on its way, than a margin below the watermark.
    pub(crate) fn lacks_ready(&self, view: ReadView<'_>, segment: u32) -> bool {
        let Some(share) = view.space.get(segment) else {
            return false;
        };
        let quarantined_bytes = view.space.quarantine().bytes_of(segment);
        let used_bytes = share.allocator.used().saturating_sub(quarantined_bytes);
        let ratio = (self.watermark_ratio - LOOK_AHEAD_RATIO).max(0.0);
        let kept_bytes = (ratio * share.usable_bytes() as f64) as u64;
        let stock_bytes =
            view.stored.replicas.ready_bytes(segment) + self.demotions.bytes_of(segment);
        used_bytes > kept_bytes.saturating_add(stock_bytes)
    }

    /// Bytes of a tenant that are ready to go, or on their way.
    pub(crate) fn stock_of(&self, view: ReadView<'_>, tenant: TenantNumber) -> u64 {
        view.stored.replicas.ready_bytes_of(tenant, view.space.live())
            + self.demotions.bytes_of_tenant(tenant)
    }
}
