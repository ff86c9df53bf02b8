//! Space moves between shards: free bytes go to the shard that runs out of them, before anything is
//! evicted; later the space of the oldest objects does.
//! Invariant: only free bytes move, and each byte of a segment is held by one shard or is on its
//! way to one.

use perigee_allocator::Extent;

use crate::limits::{DRY_MS, FAIR_IDLE_FACTOR, FAIR_IDLE_MS, LOAN_PART, NEEDS_MAX};
use crate::loan::{Need, SpaceLoan};
use crate::share::SegmentShare;
use crate::space::Space;
use crate::tenant::SHARED;
use crate::victim::EvictionReason as Urgency;

use super::KeyShard;

impl KeyShard {
    /// Whether other shards may have room for this one, as far as it knows.
    pub fn may_borrow(&mut self, now_ms: u64) -> bool {
        self.stored.clock.advance(now_ms);
        self.space.live().iter().any(|segment| self.may_borrow_in(*segment))
    }

    pub(super) fn may_borrow_in(&self, segment: u32) -> bool {
        let share = self.space.get(segment);
        self.settings.count > 1
            && share.is_some_and(|share| {
                share.is_live() && share.dry_until_ms <= self.stored.clock.now_ms()
            })
    }

    /// What to ask the others for so that waiting puts of `waiting_bytes` in all find room without
    /// eviction.
    pub fn needs_of_puts(&mut self, waiting_bytes: u64, longest_bytes: u64) -> Vec<Need> {
        let fits = |share: &SegmentShare| share.spec.bytes >= longest_bytes;
        let open = self.space.live().iter().copied().filter(|segment| {
            self.may_borrow_in(*segment) && self.space.get(*segment).is_some_and(fits)
        });
        let open: Vec<u32> = open.take(NEEDS_MAX).collect();
        open.into_iter()
            .filter_map(|segment| self.need(segment, waiting_bytes, longest_bytes))
            .collect()
    }

    /// What to ask the others for so that segments above the watermark need no eviction.
    pub fn needs_of_watermark(&mut self) -> Vec<Need> {
        let pressed = self.space.live().iter().copied().filter(|segment| {
            self.may_borrow_in(*segment)
                && self.space.is_above(*segment, self.settings.watermark_ratio)
        });
        let pressed: Vec<u32> = pressed.take(NEEDS_MAX).collect();
        pressed.into_iter().filter_map(|segment| self.need(segment, 0, 0)).collect()
    }

    fn need(&mut self, segment: u32, waiting_bytes: u64, longest_bytes: u64) -> Option<Need> {
        let victim_idle_ms = self.victims().idle_ms(segment, urgency(waiting_bytes));
        let allocator = &self.space.get(segment)?.allocator;
        Some(Need {
            segment,
            used_bytes: allocator.used().saturating_add(waiting_bytes),
            held_bytes: allocator.capacity(),
            waiting_bytes,
            longest_bytes,
            victim_idle_ms,
        })
    }

    /// Gives free bytes away in up to `segments` of the named segments: as many as make both shards
    /// equally full, and what the waiting puts take if a free extent is long enough for each of
    /// them. Segments that stay below the watermark here come first. Evicts for it what has been
    /// idle for much longer than what the other shard would evict.
    pub fn lend(&mut self, now_ms: u64, needs: &[Need], segments: usize) -> Vec<SpaceLoan> {
        self.begin(now_ms);
        let (lenders, ratio) = (self.settings.lenders(), self.settings.watermark_ratio);
        let is_roomy =
            |need: &&Need| self.space.stays_below(need.segment, need.least_bytes(lenders), ratio);
        let (roomy, full): (Vec<&Need>, Vec<&Need>) = needs.iter().partition(is_roomy);
        let loans = roomy.into_iter().chain(full).filter_map(|need| {
            let extent =
                lend_free(&mut self.space, need, lenders).or_else(|| self.lend_by_age(need))?;
            let generation_bound = self.stored.replicas.generation_bound();
            Some(SpaceLoan { segment: need.segment, extent, generation_bound })
        });
        loans.take(segments).collect()
    }

    /// Makes a loan of old objects' space, so that eviction takes the oldest of all shards,
    /// roughly.
    fn lend_by_age(&mut self, need: &Need) -> Option<Extent> {
        let segment = need.segment;
        let share = self.space.get(segment).filter(|it| it.is_live())?;
        let bytes = (share.spec.bytes / LOAN_PART).max(need.least_bytes(self.settings.lenders()));
        let idle_ms = self.victims().idle_ms(segment, urgency(need.waiting_bytes));
        let theirs_ms = need.victim_idle_ms.saturating_mul(FAIR_IDLE_FACTOR);
        if idle_ms <= theirs_ms.max(FAIR_IDLE_MS) {
            return None;
        }
        self.evict_bytes(segment, bytes, urgency(need.waiting_bytes));
        if self.space.get(segment)?.allocator.largest_free() < need.longest_bytes {
            return None;
        }
        self.space.cede(segment, bytes)
    }

    /// Takes over free bytes of other shards, also of a segment that this shard hears of later.
    pub fn receive(&mut self, now_ms: u64, loans: &[SpaceLoan]) {
        self.stored.clock.advance(now_ms);
        for loan in loans {
            self.stored.replicas.raise_generations(loan.generation_bound);
            self.space.receive(*loan);
        }
    }

    /// The other shards had nothing to spare in these segments.
    pub fn note_dry(&mut self, now_ms: u64, segments: impl IntoIterator<Item = u32>) {
        self.stored.clock.advance(now_ms);
        let until_ms = self.stored.clock.now_ms().saturating_add(DRY_MS);
        for segment in segments {
            self.space.note_dry(segment, until_ms);
        }
    }
}

/// Gives free bytes of a segment away: as many as make both shards equally full, and what the
/// waiting puts take if a free extent is long enough for each of them.
fn lend_free(space: &mut Space, need: &Need, lenders: u64) -> Option<Extent> {
    let share = space.get(need.segment).filter(|it| it.is_live())?;
    let allocator = &share.allocator;
    if allocator.largest_free() < need.longest_bytes {
        return None;
    }
    let bytes = need.evening(allocator.used(), allocator.capacity()) / lenders;
    debug_assert!(bytes <= allocator.capacity(), "a part of what is held");
    let bytes = bytes.max(need.least_bytes(lenders));
    if need.waiting_bytes == 0 && bytes < share.spec.bytes / LOAN_PART {
        return None;
    }
    space.cede(need.segment, bytes)
}

fn urgency(waiting_bytes: u64) -> Urgency {
    match waiting_bytes {
        0 => Urgency::Watermark,
        _ => Urgency::Put(SHARED),
    }
}
