//! Eviction: of one victim, down to the watermark, and until an allocation fits.
//! Invariant: a group's members are evicted together; the space of a victim is free at once.

use perigee_allocator::Extent;

use crate::departures::DepartureCause;
use crate::limits::{EVICTION_WASTE_BYTES, EVICTION_WASTE_FACTOR, HEAT_PAUSE_AFTER_EVICTION_MS};
use crate::object::Flags;
use crate::read_view::ReadView;
use crate::slab::NONE;
use crate::tenant::TenantNumber;
use crate::victim::EvictionReason;

use super::KeyShard;

impl KeyShard {
    /// Evicts a replica, or its object's whole group.
    pub(super) fn evict(&mut self, replica: u32, cause: DepartureCause) {
        if self.stored.replicas[replica].is_extra() {
            return self.evict_extra(replica);
        }
        let object = &self.stored.keys[self.stored.replicas[replica].object];
        debug_assert!(
            self.stored.groups.touched(object).read_end_ms <= self.stored.clock.now_ms(),
            "a reader is never disturbed"
        );
        match object.group {
            NONE => self.evict_replica(replica, cause),
            group if self.stored.groups.retire(group, self.stored.clock.now_ms()) => {
                self.drop_part(group, cause);
            }
            // A lease or a put on another shard came in between.
            group => self.stored.look_again(group),
        }
    }

    /// Drops the parts here of groups that other shards have evicted.
    pub(super) fn drop_retired(&mut self) {
        for group in self.stored.groups.take_retired() {
            self.drop_part(group, DepartureCause::WithItsGroup);
        }
    }

    /// Evicts the members of a group that are here, but those that were pinned, or begun to be
    /// copied to a disk, while another shard decided.
    fn drop_part(&mut self, group: u32, cause: DepartureCause) {
        let Some(part) = self.stored.groups.get(group) else {
            return;
        };
        let replicas = part.replicas(&self.stored.replicas);
        for replica in replicas {
            // A part takes the others with it.
            let Some(object) = self.stored.replicas.get(replica).map(|replica| replica.object)
            else {
                continue;
            };
            if !self.stored.keys[object].flags.has(Flags::HELD) {
                self.evict_replica(replica, cause);
            }
        }
        self.stored.groups.found_again(group);
    }

    fn evict_replica(&mut self, replica: u32, cause: DepartureCause) {
        self.note_departure(replica, cause);
        let object = self.stored.replicas[replica].object;
        let (hash, kind) = (self.stored.keys[object].hash(), self.stored.kind_of(object));
        let is_only_part = self.stored.is_only_part(replica);
        let is_alone = self.stored.keys[object].first == replica
            && self.stored.replicas[replica].sibling == NONE;
        let last = is_alone || is_only_part;
        if last {
            self.counters.evicted_keys += 1;
            self.tier.count_unsaved(
                ReadView { stored: &self.stored, space: &self.space },
                &mut self.counters,
                replica,
            );
            self.owner_notes().note_older_void(object);
            self.order.policy.evicted(hash, kind, self.stored.keys.len());
        }
        if is_only_part {
            let all: Vec<u32> =
                self.stored.replicas.chain(self.stored.keys[object].first).collect();
            all.into_iter().for_each(|id| self.count_bytes_of(id));
        } else {
            self.count_bytes_of(replica);
        }
        debug_assert!(!self.stored.keys[object].flags.has(Flags::HARD_PIN));
        self.drop_complete(replica);
    }

    fn count_bytes_of(&mut self, replica: u32) {
        self.counters.evicted_bytes += self.stored.replicas[replica].payload_bytes;
        self.quotas.count_evicted(&self.stored.replicas[replica]);
    }

    /// Evicts from a segment until `bytes` bytes can be allocated there. Evicts nothing if all that
    /// may go is too little; gives up after some multiple of `bytes` if no hole becomes large
    /// enough, and what went is lost then.
    pub(super) fn evict_until_fits(
        &mut self,
        segment: u32,
        bytes: u64,
        writer: TenantNumber,
    ) -> Option<Extent> {
        self.counters.evictions_attempted += 1;
        if self.victims().room_bytes(segment, bytes, writer) < bytes {
            return None;
        }
        let waste_bytes = bytes.saturating_mul(EVICTION_WASTE_FACTOR).max(EVICTION_WASTE_BYTES);
        let evicted_before = self.counters.evicted_bytes;
        let steps = self.stored.replicas.count_in(segment);
        let mut evicted = false;
        for _ in 0..steps {
            let reason = EvictionReason::Put(writer);
            let Some(victim) = self.victims().at_all_costs(segment, reason) else {
                break;
            };
            self.evict(victim.replica, reason.into());
            self.counters.evictions_successful += u64::from(!evicted);
            evicted = true;
            let extent = self.space.alloc(segment, bytes);
            debug_assert!(extent.is_none_or(|extent| extent.bytes == bytes));
            if extent.is_some() {
                return extent;
            }
            if self.counters.evicted_bytes - evicted_before > waste_bytes {
                break;
            }
        }
        None
    }

    /// Evicts about `bytes` bytes from a segment, or as much as may go.
    pub(super) fn evict_bytes(&mut self, segment: u32, bytes: u64, need: EvictionReason) {
        let steps = self.stored.replicas.count_in(segment);
        self.counters.evictions_attempted += 1;
        let before = self.counters.evicted_bytes;
        for _ in 0..steps {
            if self.counters.evicted_bytes - before >= bytes {
                break;
            }
            let Some(victim) = self.victims().at_all_costs(segment, need) else {
                break;
            };
            self.evict(victim.replica, need.into());
        }
        self.counters.evictions_successful += u64::from(self.counters.evicted_bytes > before);
    }

    /// Evicts in every segment above the watermark, unless other shards may have room there;
    /// returns what is left of the budget.
    pub(super) fn evict_to_watermark(&mut self, mut budget: usize) -> usize {
        for segment in 0..self.space.bound() {
            if self.space.is_above(segment, self.settings.watermark_ratio)
                && !self.may_borrow_in(segment)
            {
                budget = self.relieve(segment, budget);
            }
        }
        budget
    }

    /// Evicts from one segment to just below the watermark, at most `eviction_ratio` of what the
    /// shard holds.
    fn relieve(&mut self, segment: u32, mut budget: usize) -> usize {
        let Some(share) = self.space.get(segment) else {
            return budget;
        };
        let step_bytes = (share.usable_bytes() as f64 * self.settings.eviction_ratio) as u64;
        let evicted_before = self.counters.evicted_bytes;
        let keys_before = self.counters.evicted_keys;
        self.counters.evictions_attempted += 1;
        while budget > 0
            && self.space.is_above(segment, self.settings.watermark_ratio)
            && self.counters.evicted_bytes - evicted_before <= step_bytes
        {
            let Some(victim) = self.victims().of_segment(segment, EvictionReason::Watermark) else {
                break;
            };
            self.evict(victim.replica, DepartureCause::Watermark);
            budget -= 1;
        }
        if self.counters.evicted_bytes > evicted_before || self.counters.evicted_keys > keys_before
        {
            self.counters.evictions_successful += 1;
        }
        budget
    }

    /// Evicts a replica that was made for heat; its key is not given another one soon.
    pub(super) fn evict_extra(&mut self, id: u32) {
        let object = self.stored.replicas[id].object;
        self.counters.heat.evicted += 1;
        self.counters.evicted_bytes += self.stored.replicas[id].payload_bytes;
        self.quotas.count_evicted(&self.stored.replicas[id]);
        self.wishing().pause_heat(object, HEAT_PAUSE_AFTER_EVICTION_MS);
        self.note_departure(id, DepartureCause::Extra);
        self.drop_complete(id);
    }
}
