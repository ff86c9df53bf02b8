//! Promotion: what is read often and lies on disks alone is copied back to memory.
//! Invariant: a promotion is a move of its object, so that the object has one at a time; the copy
//! on the disk stays.

use perigee_schemas::extent::extent_bytes;

use crate::moving::{NO_JOB, Purpose};
use crate::object::Flags;

use super::KeyShard;

impl KeyShard {
    /// A key was read; if it lies on a disk alone, and is read often, it is copied to memory.
    pub(super) fn promote_hit(&mut self, object: u32) {
        let Some(promotion) = self.settings.promotion else {
            return;
        };
        let first = self.keys[object].first;
        if !self.replicas[first].is_on_disk() || !self.is_readable(first) {
            return;
        }
        if self.hits.note(self.keys[object].hash()) < promotion.threshold {
            self.counters.promotions_rejected.frequency += 1;
            return;
        }
        let is_busy =
            self.relocation.of(object).is_some() || self.keys[object].flags.has(Flags::PENDING);
        if is_busy {
            return;
        }
        let most = promotion.queue_limit / self.settings.count;
        if self.relocation.moves().promotions() as usize >= most.max(1) {
            self.counters.promotions_rejected.cap += 1;
            return;
        }
        let bytes = extent_bytes(self.replicas[first].payload_bytes);
        let payer = self.payer_of(object);
        if !self.charge_copy(payer, Purpose::Promotion, bytes) {
            self.counters.promotions_rejected.watermark += 1;
            return;
        }
        let open = self.with_room_for_promotion(first);
        match self.space.alloc_least_used(&open, bytes) {
            Some((segment, extent)) => {
                self.begin_move(NO_JOB, Purpose::Promotion, first, segment, extent);
            }
            None => {
                self.refund(payer, bytes);
                self.counters.promotions_rejected.watermark += 1;
            }
        }
    }

    /// Whether moves wait for a client.
    pub fn has_moves(&self, client: u128) -> bool {
        self.relocation.moves().next_of(client).is_some()
    }

    /// Where a promoted copy may go: memory of the disk's owner, else any. Half of what lies above
    /// the watermark is left to puts; what is above it goes by eviction, which is cheap as long as
    /// disks have copies.
    fn with_room_for_promotion(&self, copy: u32) -> Vec<u32> {
        let owner = self.carrier_of(copy);
        let most = (1.0 + self.settings.watermark_ratio) / 2.0;
        let mut open = self.space.live().to_vec();
        open.retain(|segment| !self.space.is_above(*segment, most));
        let is_own = |segment: &u32| {
            self.space.get(*segment).is_some_and(|share| share.spec.client == owner)
        };
        let own: Vec<u32> = open.iter().copied().filter(is_own).collect();
        if own.is_empty() { open } else { own }
    }
}
