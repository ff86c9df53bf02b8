//! Where new replicas go.
//! Invariant: the replicas of one object lie in different segments, and on different hosts as long
//! as there are any; eviction comes only after all segments of such hosts were tried. No segment is
//! filled above the watermark, where objects go, while another one has room below it.

use perigee_allocator::Extent;
use perigee_schemas::PartLayout;
use perigee_schemas::extent::extent_bytes;

use crate::limits::PRESSURE_SAMPLES;
use crate::placement::PutConfig;
use crate::slab::NONE;
use crate::tenant::TenantNumber;
use crate::victim::EvictionReason;

use super::KeyShard;
use super::put_start::Effort;

/// What is to be placed.
#[derive(Clone, Copy)]
pub(super) struct PlaceRequest<'a> {
    pub(super) hash: u64,
    pub(super) payload_bytes: u64,
    pub(super) config: &'a PutConfig<'a>,
    /// Segment to try first.
    pub(super) same_node: Option<u32>,
    pub(super) effort: Effort,
    /// Whose quota it is charged to.
    pub(super) payer: TenantNumber,
    /// How it is cut, if no segment is large enough.
    pub(super) layout: Option<PartLayout>,
    /// It is this part of an object.
    pub(super) part: Option<u8>,
}

impl PlaceRequest<'_> {
    /// Bytes to allocate for one replica.
    pub(super) fn bytes(&self) -> u64 {
        match &self.layout {
            None => extent_bytes(self.payload_bytes),
            Some(layout) => layout.extents_bytes(),
        }
    }
}

/// Replicas made for a request: a chain in order of preference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) first: u32,
    pub(super) count: u32,
    /// Bytes of their extents.
    pub(super) bytes: u64,
}

/// Which segments may take a replica of an object that has others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hosts {
    /// Those on hosts without one.
    Apart,
    /// All of them.
    Any,
}

impl KeyShard {
    /// Allocates as many of the wanted replicas as fit, evicting if need be; `None` if not even one
    /// fits. Without eviction it is all of them or `None`.
    pub(super) fn place(&mut self, request: &PlaceRequest<'_>) -> Option<Placed> {
        if let Some(layout) = request.layout {
            return self.place_parts(request, layout);
        }
        let extents = self.find_extents(request);
        let first = self.stored.replicas.chain_up(
            &extents,
            (request.payer, request.payload_bytes),
            None,
            NONE,
        );
        let count = extents.len() as u32;
        let bytes = extent_bytes(request.payload_bytes) * u64::from(count);
        (first != NONE).then_some(Placed { first, count, bytes })
    }

    /// The extents of the replicas of what lies in one piece, in order of preference; none if not
    /// even one fits.
    pub(super) fn find_extents(&mut self, request: &PlaceRequest<'_>) -> Vec<(u32, Extent)> {
        let wanted = request.config.replica_num;
        let (hash, config) = (request.hash, request.config);
        let mut candidates = self.ranking.rank(&self.space, hash, config, request.same_node);
        if request.part.is_some() {
            candidates.retain(|segment| self.space.takes_parts(*segment));
        }
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
        extents
    }

    fn place_among(
        &mut self,
        request: &PlaceRequest<'_>,
        candidates: &mut Vec<u32>,
        extents: &mut Vec<(u32, Extent)>,
    ) {
        let wanted = request.config.replica_num as usize;
        let most = candidates.len().min(wanted);
        self.place_free(request, candidates, extents, Hosts::Apart);
        if extents.len() == wanted {
            return;
        }
        if request.effort != Effort::Free {
            return self.place_at_all_costs(request, candidates, extents);
        }
        if !self.has_apart(candidates, extents) {
            self.place_free(request, candidates, extents, Hosts::Any);
        }
        if extents.len() < most {
            for (segment, extent) in extents.drain(..) {
                self.space.free(segment, extent);
            }
        }
    }

    /// Evicts on hosts without a replica; what is still missing goes to the others.
    fn place_at_all_costs(
        &mut self,
        request: &PlaceRequest<'_>,
        candidates: &mut Vec<u32>,
        extents: &mut Vec<(u32, Extent)>,
    ) {
        let wanted = request.config.replica_num as usize;
        if extents.is_empty() {
            self.place_by_eviction(request, candidates, extents);
        }
        while extents.len() < wanted {
            let is_apart = |segment: &mut u32| !self.shares_host(*segment, extents);
            let mut apart: Vec<u32> = candidates.extract_if(.., is_apart).collect();
            if apart.is_empty() {
                break;
            }
            self.place_by_eviction(request, &mut apart, extents);
            candidates.append(&mut apart);
        }
        if extents.len() < wanted {
            self.place_free(request, candidates, extents, Hosts::Any);
        }
        while extents.len() < wanted && !candidates.is_empty() {
            self.place_by_eviction(request, candidates, extents);
        }
    }

    /// Whether a segment lies on the host of one of these.
    fn shares_host(&self, segment: u32, extents: &[(u32, Extent)]) -> bool {
        extents.iter().any(|(other, _)| self.space.is_same_host(segment, *other))
    }

    /// Whether another host than those of the replicas that are placed is left.
    fn has_apart(&self, candidates: &[u32], extents: &[(u32, Extent)]) -> bool {
        candidates.iter().any(|segment| !self.shares_host(*segment, extents))
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

    /// Allocates from free space, above the watermark only if there is none below it; segments that
    /// were used or are too small leave `candidates`.
    fn place_free(
        &mut self,
        request: &PlaceRequest<'_>,
        candidates: &mut Vec<u32>,
        extents: &mut Vec<(u32, Extent)>,
        hosts: Hosts,
    ) {
        let watermark_ratio = self.settings.watermark_ratio;
        self.place_free_below(watermark_ratio, request, candidates, extents, hosts);
        if watermark_ratio < 1.0 {
            self.place_free_below(1.0, request, candidates, extents, hosts);
        }
    }

    /// Allocates from free space of segments of which no more than a part is used then.
    fn place_free_below(
        &mut self,
        ratio: f64,
        request: &PlaceRequest<'_>,
        candidates: &mut Vec<u32>,
        extents: &mut Vec<(u32, Extent)>,
        hosts: Hosts,
    ) {
        let bytes = extent_bytes(request.payload_bytes);
        let wanted = request.config.replica_num as usize;
        candidates.retain(|segment| {
            let is_left = hosts == Hosts::Apart && self.shares_host(*segment, extents);
            if extents.len() == wanted || is_left {
                return true;
            }
            if ratio < 1.0 && !self.space.stays_below(*segment, bytes, ratio) {
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

    /// Makes room for one more replica, first in the segment whose next victim is worth least.
    /// Segments without a victim, or where that was not enough, leave `candidates`.
    fn place_by_eviction(
        &mut self,
        request: &PlaceRequest<'_>,
        candidates: &mut Vec<u32>,
        extents: &mut Vec<(u32, Extent)>,
    ) {
        let bytes = extent_bytes(request.payload_bytes);
        let need = EvictionReason::Put(request.payer);
        while !candidates.is_empty() {
            let sampled = candidates.len().min(PRESSURE_SAMPLES);
            let best = (0..sampled)
                .filter_map(|at| Some((self.victims().of_segment(candidates[at], need)?, at)))
                .min();
            let at = best.map(|(_, at)| at).or_else(|| {
                (0..sampled).find(|at| self.victims().revoked(candidates[*at], need).is_some())
            });
            let Some(at) = at else {
                candidates.drain(..sampled);
                continue;
            };
            let segment = candidates.remove(at);
            if let Some(extent) = self.evict_until_fits(segment, bytes, request.payer) {
                return extents.push((segment, extent));
            }
        }
    }
}
