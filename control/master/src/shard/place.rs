//! Where new replicas go.
//! Invariant: the replicas of one object lie in different segments; eviction comes only after all
//! segments were tried.

use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;

use crate::limits::PRESSURE_SAMPLES;
use crate::placement::PutConfig;
use crate::slab::NONE;
use crate::tenant::{TenantLane, TenantNumber};

use super::KeyShard;
use super::put_start::Effort;
use super::victim::EvictionReason;

/// What is to be placed.
pub(super) struct PlaceRequest<'a> {
    pub(super) hash: u64,
    pub(super) payload_bytes: u64,
    pub(super) config: &'a PutConfig<'a>,
    /// Segment to try first.
    pub(super) same_node: Option<u32>,
    pub(super) effort: Effort,
    /// Whose quota it is charged to.
    pub(super) payer: TenantNumber,
}

/// Replicas made for a request: a chain in order of preference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) first: u32,
    pub(super) count: u32,
}

impl KeyShard {
    /// Allocates as many of the wanted replicas as fit, evicting if need be; `None` if not even one
    /// fits. Without eviction it is all of them or `None`.
    pub(super) fn place(&mut self, request: &PlaceRequest<'_>) -> Option<Placed> {
        let wanted = request.config.replica_num;
        let (hash, config) = (request.hash, request.config);
        let mut candidates = self.ranking.rank(&self.space, hash, config, request.same_node);
        let mut excluded = self.split_off_excluded(request, &mut candidates);
        let mut extents = Vec::with_capacity(wanted as usize);
        if candidates.is_empty() {
            std::mem::swap(&mut candidates, &mut excluded);
        }
        self.place_among(request, &mut candidates, &mut extents);
        if extents.is_empty() && request.effort != Effort::Free {
            self.place_among(request, &mut excluded, &mut extents);
        }
        debug_assert!(extents.len() <= wanted as usize, "no more than was asked for");
        self.ranking.reuse(candidates);
        self.chain_up(&extents, request)
    }

    fn place_among(
        &mut self,
        request: &PlaceRequest<'_>,
        candidates: &mut Vec<u32>,
        extents: &mut Vec<(u32, Extent)>,
    ) {
        let wanted = candidates.len().min(request.config.replica_num as usize);
        self.place_free(request, candidates, extents);
        if extents.len() == request.config.replica_num as usize {
            return;
        }
        if request.effort != Effort::Free {
            self.place_by_eviction(request, candidates, extents);
        } else if extents.len() < wanted {
            for (segment, extent) in extents.drain(..) {
                self.space.free(segment, extent);
            }
        }
    }

    /// Takes the segments that the writer wants to avoid out of `candidates`.
    fn split_off_excluded(
        &self,
        request: &PlaceRequest<'_>,
        candidates: &mut Vec<u32>,
    ) -> Vec<u32> {
        if request.config.excluded.is_empty() {
            return Vec::new();
        }
        let is_excluded = |segment: &mut u32| {
            self.space
                .get(*segment)
                .is_some_and(|share| request.config.excluded.contains(&share.spec.id))
        };
        candidates.extract_if(.., is_excluded).collect()
    }

    /// Allocates from free space; segments that were used or are too small leave `candidates`.
    fn place_free(
        &mut self,
        request: &PlaceRequest<'_>,
        candidates: &mut Vec<u32>,
        extents: &mut Vec<(u32, Extent)>,
    ) {
        let bytes = extent_bytes(request.payload_bytes);
        let wanted = request.config.replica_num as usize;
        candidates.retain(|segment| {
            if extents.len() == wanted {
                return true;
            }
            match self.space.alloc(*segment, bytes) {
                Some(extent) => {
                    extents.push((*segment, extent));
                    false
                }
                None => self.space.get(*segment).is_some_and(|it| it.usable_bytes() >= bytes),
            }
        });
    }

    /// Makes room, first in the segment whose next victim is worth least.
    fn place_by_eviction(
        &mut self,
        request: &PlaceRequest<'_>,
        candidates: &mut Vec<u32>,
        extents: &mut Vec<(u32, Extent)>,
    ) {
        let bytes = extent_bytes(request.payload_bytes);
        let need = EvictionReason::Put(request.payer);
        while extents.len() < request.config.replica_num as usize {
            let sampled = candidates.len().min(PRESSURE_SAMPLES);
            let best =
                (0..sampled).filter_map(|at| Some((self.victim(candidates[at], need)?, at))).min();
            let Some((_, at)) = best else {
                candidates.drain(..sampled);
                if candidates.is_empty() {
                    return;
                }
                continue;
            };
            let segment = candidates.remove(at);
            let extent = self.evict_until_fits(segment, bytes, request.payer);
            extents.extend(extent.map(|extent| (segment, extent)));
        }
    }

    fn chain_up(
        &mut self,
        extents: &[(u32, Extent)],
        request: &PlaceRequest<'_>,
    ) -> Option<Placed> {
        let (payload_bytes, tenant) = (request.payload_bytes, request.payer);
        let mut first = NONE;
        for (at, (segment, extent)) in extents.iter().enumerate().rev() {
            let others = || extents[..at].iter().map(|(other, _)| other);
            debug_assert!(others().all(|other| other != segment), "one per segment");
            debug_assert_eq!(extent.bytes, extent_bytes(payload_bytes));
            let id = self.replicas.make(
                TenantLane { segment: *segment, tenant },
                *extent,
                payload_bytes,
            );
            self.replicas.put_before(id, first);
            first = id;
        }
        (first != NONE).then_some(Placed { first, count: extents.len() as u32 })
    }
}
