//! A put that is being placed, within the quota of its tenant: in one piece, or cut into parts.
//! Invariant: all parts have their replicas or none has; nothing stays charged but what was placed.

mod extents;

use perigee_schemas::extent::extent_bytes;
use perigee_schemas::{PartLayout, Status};

use crate::limits::{OBJECT_BYTES_MAX, QUOTA_TRIES_MAX};
use crate::slab::NONE;
use crate::tenant::{ChargeRefusal, SHARED};

use super::KeyShard;
use super::place_request::{PlaceRequest, Placed};
use super::put_start::Effort;

pub(super) struct Placing<'a> {
    pub(super) shard: &'a mut KeyShard,
    pub(super) request: &'a PlaceRequest<'a>,
}

impl Placing<'_> {
    /// Places a put within the quota of its tenant.
    pub(super) fn charged(&mut self) -> Result<Placed, Status> {
        let reserved_bytes = self.reserve()?;
        let placed = self.counted();
        if self.request.payer != SHARED {
            let used_bytes = placed.map_or(0, |placed| placed.bytes);
            self.shard.quotas.refund(self.request.payer, reserved_bytes - used_bytes);
        }
        placed.ok_or(Status::NoAvailableHandle)
    }

    fn counted(&mut self) -> Option<Placed> {
        let too_large = self.request.payload_bytes > OBJECT_BYTES_MAX;
        let placed = if too_large { None } else { self.in_segments() };
        match placed {
            None => {
                let is_last = self.request.effort == Effort::Last;
                self.shard.counters.alloc_failures += u64::from(is_last);
            }
            Some(placed) => {
                let partial = placed.count < self.request.config.replica_num;
                self.shard.counters.partial_allocations += u64::from(partial);
            }
        }
        placed
    }

    /// Charges a put before it is placed, evicting what the tenant has if its quota is used up;
    /// returns the charge.
    fn reserve(&mut self) -> Result<u64, Status> {
        let payer = self.request.payer;
        if payer == SHARED || self.request.payload_bytes > OBJECT_BYTES_MAX {
            return Ok(0);
        }
        let places =
            self.shard.space.live().len().clamp(1, self.request.config.replica_num.max(1) as usize);
        let bytes = self.request.bytes() * places as u64;
        for _ in 0..QUOTA_TRIES_MAX {
            let Some(account) = self.shard.quotas.account(payer) else {
                break;
            };
            let short_bytes = match account.try_charge(bytes) {
                Ok(()) => return Ok(bytes),
                Err(ChargeRefusal::Closed) => return Err(Status::TenantNotRegistered),
                Err(ChargeRefusal::Short(short_bytes)) => short_bytes,
            };
            if !account.can_ever_hold(bytes) || self.shard.evict_own(payer, short_bytes) == 0 {
                break;
            }
        }
        Err(Status::TenantQuotaExceeded)
    }

    /// Allocates as many of the wanted replicas as fit, evicting if need be; `None` if not even one
    /// fits. Without eviction it is all of them or `None`.
    fn in_segments(&mut self) -> Option<Placed> {
        if let Some(layout) = self.request.layout {
            return self.in_parts(layout);
        }
        let extents = self.extents();
        let first = self.shard.stored.replicas.chain_up(
            &extents,
            (self.request.payer, self.request.payload_bytes),
            None,
            NONE,
        );
        let count = extents.len() as u32;
        let bytes = extent_bytes(self.request.payload_bytes) * u64::from(count);
        (first != NONE).then_some(Placed { first, count, bytes })
    }

    /// Places each part with its replicas; all of them or none.
    fn in_parts(&mut self, layout: PartLayout) -> Option<Placed> {
        if self.request.effort != Effort::Free && !self.may_find_room(layout) {
            return None;
        }
        let parts = layout.parts();
        let part_of = |part: u8| PlaceRequest {
            payload_bytes: layout.bytes_of(part),
            part: Some(part),
            ..*self.request
        };
        let mut places = Vec::with_capacity(usize::from(parts));
        for part in 0..parts {
            let request = part_of(part);
            let extents = Placing { shard: self.shard, request: &request }.extents();
            if extents.is_empty() {
                for (segment, extent) in places.into_iter().flatten() {
                    self.shard.space.free(segment, extent);
                }
                return None;
            }
            places.push(extents);
        }
        let count = places.iter().map(Vec::len).min().unwrap_or_default() as u32;
        let bytes = places.iter().flatten().map(|(_, extent)| extent.bytes).sum();
        let mut first = NONE;
        for (part, extents) in (0..parts).zip(&places).rev() {
            let payload = (self.request.payer, layout.bytes_of(part));
            first = self.shard.stored.replicas.chain_up(extents, payload, Some(part), first);
        }
        Some(Placed { first, count, bytes })
    }

    /// Whether what is free and what may be evicted holds all parts. If not, nothing is evicted.
    fn may_find_room(&mut self, layout: PartLayout) -> bool {
        let bytes = layout.extents_bytes();
        let mut room_bytes = 0_u64;
        for segment in self.shard.space.live().to_vec() {
            if !self.shard.space.takes_parts(segment) {
                continue;
            }
            let missing_bytes = bytes - room_bytes;
            let room = self.shard.victims().room_bytes(segment, missing_bytes, self.request.payer);
            room_bytes += room.min(missing_bytes);
            if room_bytes == bytes {
                return true;
            }
        }
        false
    }
}
