//! Copies that clients make begin and are handed out: moves, and promotions of what is read often,
//! or asked for, and lies on disks alone.
//! Invariant: an object has one move at a time, and its target lies where no replica of the object
//! does. A promotion leaves the copy on the disk.

#[cfg(test)]
mod tests;

use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;

use crate::columns::ReplicaState;
use crate::counters::ShardCounters;
use crate::hit_sketch::HitSketch;
use crate::index::Slot;
use crate::limits::TASK_MOVES_PER_CLIENT_MAX;
use crate::move_task::MoveTask;
use crate::moving::{NO_JOB, Purpose, ReplicaMove, move_deadline_ms};
use crate::object::Flags;
use crate::read_view::ReadView;
use crate::relocation::Relocation;
use crate::settings::{PromotionSettings, ShardSettings};
use crate::shard_quotas::ShardQuotas;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::tenant::TenantLane;

/// The moves under way, and what one that begins changes beside them.
pub(crate) struct Relocating<'a> {
    pub(crate) settings: &'a ShardSettings,
    pub(crate) quotas: &'a ShardQuotas,
    pub(crate) relocation: &'a mut Relocation,
    pub(crate) stored: &'a mut StoredObjects,
    pub(crate) space: &'a mut Space,
    pub(crate) hits: &'a mut HitSketch,
    pub(crate) counters: &'a mut ShardCounters,
}

impl Relocating<'_> {
    fn view(&self) -> ReadView<'_> {
        ReadView { stored: self.stored, space: self.space }
    }

    /// Notes a move, which is charged already, for the owner of the source's segment to take;
    /// returns who that is.
    pub(crate) fn begin_move(
        &mut self,
        job: u128,
        purpose: Purpose,
        source: u32,
        segment: u32,
        extent: Extent,
    ) -> u128 {
        let replica = &self.stored.replicas[source];
        let (object, payload_bytes) = (replica.object, replica.payload_bytes);
        debug_assert!(self.relocation.of(object).is_none(), "one move per object");
        let client = self.view().carrier_of(source);
        let lane =
            TenantLane { segment, tenant: self.quotas.payer_of(self.stored.keys[object].key()) };
        let target = self.stored.replicas.make(lane, extent, payload_bytes);
        self.stored.replicas.set_part(target, self.stored.replicas[source].part());
        self.stored.replicas.assign(target, object);
        let under_way = ReplicaMove {
            job,
            purpose,
            client,
            source,
            target,
            generation: self.stored.replicas[target].generation,
            taken_ms: None,
            deadline_ms: move_deadline_ms(self.stored.clock.now_ms(), payload_bytes),
        };
        self.relocation.begin(object, under_way);
        client
    }

    pub(crate) fn take_one(&mut self, object: u32) -> Option<MoveTask> {
        let waiting = *self.relocation.of(object)?;
        debug_assert!(waiting.taken_ms.is_none(), "a move is given once");
        let source = self.stored.replicas[waiting.source].location(ReplicaState::Complete);
        let target = self.stored.replicas[waiting.target].location(ReplicaState::Processing);
        let deadline_ms = move_deadline_ms(self.stored.clock.now_ms(), source.payload_bytes);
        self.relocation.hand_out(object, self.stored.clock.now_ms(), deadline_ms);
        self.counters.relocation(waiting.purpose).started += 1;
        let checksum = self.stored.checksum_of_replica(waiting.source);
        Some(MoveTask { key: self.stored.keys[object].key().into(), checksum, source, target })
    }

    /// Whether one more copy for a task may be under way.
    pub(crate) fn may_copy(&self, source: u32, allowance: u32) -> bool {
        let moves = self.relocation.moves();
        moves.tasks() < allowance
            && moves.tasks_of(self.view().carrier_of(source)) < TASK_MOVES_PER_CLIENT_MAX
    }

    /// A key was read; if it lies on a disk alone, and is read often, it is copied to memory.
    pub(crate) fn promote_hit(&mut self, object: u32) {
        let Some(PromotionSettings { threshold: Some(threshold), queue_limit, .. }) =
            self.settings.promotion
        else {
            return;
        };
        let first = self.stored.keys[object].first;
        if !self.stored.replicas[first].is_on_disk() || !self.view().is_readable(first) {
            return;
        }
        if self.hits.note(self.stored.keys[object].hash()) < threshold {
            self.counters.promotions_rejected.frequency += 1;
            return;
        }
        self.promote(object, queue_limit);
    }

    /// It was asked whether keys exist; those that do and lie on a disk alone are copied to memory,
    /// the first ones first.
    pub(crate) fn promote_probed(&mut self, keys: &[&[u8]], exists: &[i32]) {
        let Some(PromotionSettings { on_exist: true, queue_limit, .. }) = self.settings.promotion
        else {
            return;
        };
        for (at, key) in keys.iter().enumerate().filter(|(at, _)| exists[*at] == 1) {
            // A record that stays packed costs less than an object that stays where it is.
            if self.is_promoting_enough(queue_limit)
                || !self.space.has_some_below(self.settings.promotion_watermark())
            {
                return;
            }
            let hash = self.stored.keys.located()[at];
            let slot = self.stored.keys.find_hashed(hash, key);
            let is_in_memory = |slot: &Slot| {
                let object = slot.as_object();
                object.is_some_and(|object| {
                    !self.stored.replicas[self.stored.keys[object].first].is_on_disk()
                })
            };
            let slot = slot.filter(|slot| !is_in_memory(slot));
            let object = slot.and_then(|slot| self.stored.object_of(slot));
            if object.is_some_and(|object| self.promote(object, queue_limit)) {
                self.counters.promotions_on_exist += 1;
            }
        }
    }

    /// Begins to copy an object from its disk to memory, if there is room; whether it does.
    fn promote(&mut self, object: u32, queue_limit: usize) -> bool {
        let first = self.stored.keys[object].first;
        debug_assert!(self.stored.replicas[first].is_on_disk(), "it lies on a disk alone");
        let is_busy = self.relocation.of(object).is_some()
            || self.stored.keys[object].flags.has(Flags::PENDING);
        if is_busy || !self.view().is_readable(first) {
            return false;
        }
        if self.is_promoting_enough(queue_limit) {
            self.counters.promotions_rejected.cap += 1;
            return false;
        }
        let bytes = extent_bytes(self.stored.replicas[first].payload_bytes);
        let payer = self.quotas.payer_of(self.stored.keys[object].key());
        if !self.quotas.charge_copy(payer, Purpose::Promotion, bytes) {
            self.counters.promotions_rejected.watermark += 1;
            return false;
        }
        let open = self.view().with_room_for_promotion(self.settings.promotion_watermark(), first);
        let Some((segment, extent)) = self.space.alloc_least_used(&open, bytes) else {
            self.quotas.refund(payer, bytes);
            self.counters.promotions_rejected.watermark += 1;
            return false;
        };
        self.begin_move(NO_JOB, Purpose::Promotion, first, segment, extent);
        true
    }

    fn is_promoting_enough(&self, queue_limit: usize) -> bool {
        let most = (queue_limit / self.settings.count).max(1);
        self.relocation.moves().promotions() as usize >= most
    }
}
