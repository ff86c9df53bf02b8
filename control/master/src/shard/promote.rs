//! Promotion: what is read often, or asked for, and lies on disks alone is copied back to memory.
//! Invariant: a promotion is a move of its object, so that the object has one at a time; the copy
//! on the disk stays.

use perigee_schemas::extent::extent_bytes;

use crate::index::Slot;
use crate::moving::{NO_JOB, Purpose};
use crate::object::Flags;
use crate::settings::PromotionSettings;

use super::KeyShard;

impl KeyShard {
    /// A key was read; if it lies on a disk alone, and is read often, it is copied to memory.
    pub(super) fn promote_hit(&mut self, object: u32) {
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
    pub(super) fn promote_probed(&mut self, keys: &[&[u8]], exists: &[i32]) {
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

    /// Whether what lies on disks alone is copied to memory.
    pub fn promotes(&self) -> bool {
        self.settings.promotion.is_some()
    }

    /// Whether moves wait for a client.
    pub fn has_moves(&self, client: u128) -> bool {
        self.relocation.moves().next_of(client).is_some()
    }
}
