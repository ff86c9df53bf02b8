//! How many bytes a put finds, free or by eviction.
//! Invariant: looks only at as many replicas as the bytes that are needed take.

use crate::list_name::ListName;
use crate::slab::NONE;
use crate::tenant::{TenantLane, TenantNumber};

use super::VictimSearch;

impl VictimSearch<'_> {
    /// Free and evictable bytes of a segment for a put of a tenant, as far as they are needed for
    /// `bytes`: looks only at as many replicas as that takes.
    pub(crate) fn room_bytes(&self, segment: u32, bytes: u64, writer: TenantNumber) -> u64 {
        let Some(share) = self.space.get(segment) else {
            return 0;
        };
        let free_bytes = share.free_bytes();
        match self.quotas.are_needed() {
            false => {
                free_bytes + self.evictable_bytes(TenantLane::shared(segment), bytes, free_bytes)
            }
            true => free_bytes + self.room_of_tenants(segment, bytes, free_bytes, writer),
        }
    }

    /// Bytes of a lane that may be evicted, as far as they are needed beside others for `bytes`.
    pub(super) fn evictable_bytes(&self, lane: TenantLane, bytes: u64, others: u64) -> u64 {
        let Some(lists) = self.stored.replicas.lists(lane) else {
            return 0;
        };
        let mut evictable_bytes = 0;
        let saves_first = self.tier.saves_first(self.view(), lane.segment);
        for list in self.order.lists_to_lose(self.stored) {
            if others + evictable_bytes >= bytes {
                break;
            }
            let mut id = lists.oldest(list);
            while others + evictable_bytes < bytes && id != NONE {
                let replica = &self.stored.replicas[id];
                let object = &self.stored.keys[replica.object];
                let is_read =
                    self.stored.groups.touched(object).read_end_ms > self.stored.clock.now_ms();
                let is_first = matches!(list, ListName::Ready | ListName::Extra);
                let is_kept = saves_first && !is_first && self.tier.is_wanted(self.view(), id);
                if is_read || is_kept {
                    break;
                }
                evictable_bytes += self.stored.bytes_behind(id);
                id = replica.newer;
            }
        }
        evictable_bytes
            + self.tier.revocable_bytes(self.stored, lane, bytes, others + evictable_bytes)
    }

    /// Bytes of a segment that may be evicted for a put of a tenant, as far as they are needed
    /// beside the free ones.
    pub(super) fn room_of_tenants(
        &self,
        segment: u32,
        bytes: u64,
        free_bytes: u64,
        writer: TenantNumber,
    ) -> u64 {
        let mut room_bytes = 0;
        for lane in self.quotas.lanes(&self.stored.replicas, segment, writer) {
            let most_bytes =
                if lane.tenant == writer { u64::MAX } else { self.quotas.excess(lane.tenant) };
            let others = free_bytes + room_bytes;
            room_bytes += self.evictable_bytes(lane, bytes, others).min(most_bytes);
        }
        room_bytes
    }
}
