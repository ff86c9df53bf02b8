//! Work that time brings: quarantined space, abandoned puts, ended pins, unmounted segments, what
//! lies on disks alone, the watermark.
//! Invariant: one tick does at most `budget` steps, so calls between ticks never wait long.

use super::KeyShard;
use super::space::Reuse;

impl KeyShard {
    /// Does what is due; to be called about every 10 ms. Returns whether the budget was used up,
    /// which means that another tick soon has more to do.
    pub fn tick(&mut self, now_ms: u64, budget: usize) -> bool {
        self.begin(now_ms);
        self.stored.clock.note();
        self.tier.refill_budgets(&self.space, self.stored.clock.now_ms());
        self.quotas.weigh(&self.space, self.stored.clock.now_ms());
        let budget = self.release_parked(budget);
        let budget = self.discard_abandoned(budget);
        let budget = self.give_up_moves(budget);
        let budget = self.demoting().give_up(budget);
        let budget = self.end_soft_pins(budget);
        let budget = self.forget_gone(budget);
        let budget = self.forget_recycled(budget);
        let budget = self.pack_due(budget);
        let budget = self.wishing().miss_unannounced(budget);
        let budget = self.evict_to_watermark(budget);
        self.victims().look_ahead(budget) == 0
    }

    fn release_parked(&mut self, mut budget: usize) -> usize {
        while budget > 0
            && let Some(quarantined) = self.space.release_due(self.stored.clock.now_ms())
        {
            self.counters.discard_released += u64::from(quarantined.put.is_some());
            self.pending.end_overtaken(&mut self.stored, &quarantined);
            budget -= 1;
        }
        budget
    }

    fn discard_abandoned(&mut self, mut budget: usize) -> usize {
        let Some(until_ms) =
            self.stored.clock.now_ms().checked_sub(self.settings.put_discard_timeout_ms)
        else {
            return budget;
        };
        while budget > 0
            && let Some((object, generation)) = self.pending.oldest(until_ms)
        {
            self.discard_pending(object, generation, Reuse::At);
            budget -= 1;
        }
        budget
    }

    fn end_soft_pins(&mut self, mut budget: usize) -> usize {
        while budget > 0
            && let Some(object) = self.stored.soft_pins.due(self.stored.clock.now_ms())
        {
            self.owner_notes().set_soft_pin(object, None);
            let list = self.stored.list_of(object);
            self.stored.relink(object, list);
            budget -= 1;
        }
        budget
    }
}
