//! Where new replicas go.
//! Invariant: the replicas of one object lie in different segments; eviction comes only after all
//! segments were tried.

use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;

use crate::limits::{FREE_RATIO_SAMPLES_PER_REPLICA, PRESSURE_SAMPLES};
use crate::placement::PutConfig;
use crate::slab::NONE;
use crate::strategy::Strategy;

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
        let mut candidates = std::mem::take(&mut self.candidates);
        self.rank_segments(request, &mut candidates);
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
        candidates.clear();
        self.candidates = candidates;
        self.chain_up(&extents, request.payload_bytes)
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
                self.shares.free(segment, extent);
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
            self.shares
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
            let Some(share) = self.shares.get_mut(*segment) else {
                return false;
            };
            if extents.len() == wanted {
                return true;
            }
            match share.alloc(bytes) {
                Some(extent) => {
                    extents.push((*segment, extent));
                    false
                }
                None => share.usable_bytes() >= bytes,
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
        while extents.len() < request.config.replica_num as usize {
            let sampled = candidates.len().min(PRESSURE_SAMPLES);
            let best = (0..sampled)
                .filter_map(|at| Some((self.victim(candidates[at], EvictionReason::Put)?, at)))
                .min();
            let Some((_, at)) = best else {
                candidates.drain(..sampled);
                if candidates.is_empty() {
                    return;
                }
                continue;
            };
            let segment = candidates.remove(at);
            extents.extend(self.evict_until_fits(segment, bytes).map(|extent| (segment, extent)));
        }
    }

    fn chain_up(&mut self, extents: &[(u32, Extent)], payload_bytes: u64) -> Option<Placed> {
        let mut first = NONE;
        for (at, (segment, extent)) in extents.iter().enumerate().rev() {
            let others = || extents[..at].iter().map(|(other, _)| other);
            debug_assert!(others().all(|other| other != segment), "one per segment");
            debug_assert_eq!(extent.bytes, extent_bytes(payload_bytes));
            let id = self.make_replica(*segment, *extent, payload_bytes);
            self.replicas[id].sibling = first;
            first = id;
        }
        (first != NONE).then_some(Placed { first, count: extents.len() as u32 })
    }

    /// All live segments: the batch's one, the preferred ones, then in the strategy's order; none
    /// twice.
    fn rank_segments(&mut self, request: &PlaceRequest<'_>, out: &mut Vec<u32>) {
        out.clear();
        if let Some(segment) =
            request.same_node.filter(|segment| self.shares.live().contains(segment))
        {
            out.push(segment);
        }
        for name in request.config.preferred_segments {
            for segment in self.shares.live() {
                let named =
                    self.shares.get(*segment).is_some_and(|share| share.spec.name == **name);
                if named && !out.contains(segment) {
                    out.push(*segment);
                }
            }
        }
        let chosen = out.len();
        self.rank_by_strategy(request, out);
        if chosen > 0 {
            let preferred: Vec<u32> = out[..chosen].to_vec();
            let mut at = 0;
            out.retain(|segment| {
                at += 1;
                at <= chosen || !preferred.contains(segment)
            });
        }
        debug_assert_eq!(out.len(), self.shares.live().len(), "each live segment, once");
    }

    fn rank_by_strategy(&mut self, request: &PlaceRequest<'_>, out: &mut Vec<u32>) {
        let from = out.len();
        match self.settings.strategy {
            Strategy::LocalFirst if request.config.replica_num == 1 => {
                out.extend_from_slice(self.shares.live());
                self.sort_local_first(request, &mut out[from..]);
            }
            strategy => {
                self.rotate_live(out);
                if strategy == Strategy::FreeRatioFirst {
                    let samples =
                        FREE_RATIO_SAMPLES_PER_REPLICA * request.config.replica_num as usize;
                    let until = out.len().min(from + samples);
                    let ratio =
                        |segment: &u32| self.shares.get(*segment).map_or(1.0, |s| s.used_ratio());
                    out[from..until].sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
                }
            }
        }
    }

    /// All live segments from a random one on.
    fn rotate_live(&mut self, out: &mut Vec<u32>) {
        if !self.shares.live().is_empty() {
            let start = self.random.below(self.shares.live().len());
            out.extend_from_slice(&self.shares.live()[start..]);
            out.extend_from_slice(&self.shares.live()[..start]);
        }
    }

    /// The writer's host, then the other hosts in lexical order, starting at one that the key
    /// chooses.
    fn sort_local_first(&self, request: &PlaceRequest<'_>, segments: &mut [u32]) {
        let host =
            |segment: &u32| self.shares.get(*segment).map_or("", |share| share.spec.host_name());
        segments.sort_by_key(|segment| (!self.is_local(*segment, request.config), host(segment)));
        let local = segments.partition_point(|segment| self.is_local(*segment, request.config));
        let remote = &mut segments[local..];
        if !remote.is_empty() {
            remote.rotate_left((request.hash % remote.len() as u64) as usize);
        }
    }

    fn is_local(&self, segment: u32, config: &PutConfig<'_>) -> bool {
        let Some(share) = self.shares.get(segment) else {
            return false;
        };
        let named = is_routable(config.host_name) && share.spec.host_name() == config.host_name;
        named || (!config.host_id.is_empty() && share.spec.host_id == config.host_id)
    }
}

/// Loopback and wildcard addresses name no particular host.
fn is_routable(host: &str) -> bool {
    !(host.is_empty()
        || host == "localhost"
        || host.starts_with("127.")
        || matches!(host, "0.0.0.0" | "::" | "[::]" | "::1" | "[::1]"))
}
