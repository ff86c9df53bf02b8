//! Where new replicas go.
//! Invariant: the replicas of one object lie in different segments, and on different hosts as long
//! as there are any; eviction comes only after all segments of such hosts were tried. No segment is
//! filled above the watermark, where objects go, while another one has room below it.

use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;

use crate::limits::PRESSURE_SAMPLES;
use crate::shard::KeyShard;
use crate::shard::put_start::Effort;
use crate::space::Space;
use crate::victim::EvictionReason;

use super::Placing;

/// Which segments may take a replica of an object that has others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hosts {
    /// Those on hosts without one.
    Apart,
    /// All of them.
    Any,
}

impl Placing<'_> {
    /// The extents of the replicas of what lies in one piece, in order of preference; none if not
    /// even one fits.
    pub(super) fn extents(&mut self) -> Vec<(u32, Extent)> {
        let wanted = self.request.config.replica_num;
        let (hash, config) = (self.request.hash, self.request.config);
        let mut candidates =
            self.shard.ranking.rank(&self.shard.space, hash, config, self.request.same_node);
        if self.request.part.is_some() {
            candidates.retain(|segment| self.shard.space.takes_parts(*segment));
        }
        let mut excluded = self.split_off_excluded(&mut candidates);
        let mut extents = Vec::with_capacity(wanted as usize);
        if candidates.is_empty() {
            std::mem::swap(&mut candidates, &mut excluded);
        }
        self.among(&mut candidates, &mut extents);
        if extents.is_empty() && self.request.effort != Effort::Free {
            self.among(&mut excluded, &mut extents);
        }
        debug_assert!(extents.len() <= wanted as usize, "no more than was asked for");
        self.shard.ranking.reuse(candidates);
        extents
    }

    fn among(&mut self, candidates: &mut Vec<u32>, extents: &mut Vec<(u32, Extent)>) {
        let wanted = self.request.config.replica_num as usize;
        let most = candidates.len().min(wanted);
        self.in_free_space(candidates, extents, Hosts::Apart);
        if extents.len() == wanted {
            return;
        }
        if self.request.effort != Effort::Free {
            return self.at_all_costs(candidates, extents);
        }
        if !has_apart(&self.shard.space, candidates, extents) {
            self.in_free_space(candidates, extents, Hosts::Any);
        }
        if extents.len() < most {
            for (segment, extent) in extents.drain(..) {
                self.shard.space.free(segment, extent);
            }
        }
    }

    /// Evicts on hosts without a replica; what is still missing goes to the others.
    fn at_all_costs(&mut self, candidates: &mut Vec<u32>, extents: &mut Vec<(u32, Extent)>) {
        let wanted = self.request.config.replica_num as usize;
        if extents.is_empty() {
            self.by_eviction(candidates, extents);
        }
        while extents.len() < wanted {
            let space = &self.shard.space;
            let is_apart = |segment: &mut u32| !shares_host(space, *segment, extents);
            let mut apart: Vec<u32> = candidates.extract_if(.., is_apart).collect();
            if apart.is_empty() {
                break;
            }
            self.by_eviction(&mut apart, extents);
            candidates.append(&mut apart);
        }
        if extents.len() < wanted {
            self.in_free_space(candidates, extents, Hosts::Any);
        }
        while extents.len() < wanted && !candidates.is_empty() {
            self.by_eviction(candidates, extents);
        }
    }

    /// Makes room for one more replica, first in the segment whose next victim is worth least.
    /// Segments without a victim, or where that was not enough, leave `candidates`.
    fn by_eviction(&mut self, candidates: &mut Vec<u32>, extents: &mut Vec<(u32, Extent)>) {
        let bytes = extent_bytes(self.request.payload_bytes);
        let need = EvictionReason::Put(self.request.payer);
        while !candidates.is_empty() {
            let sampled = candidates.len().min(PRESSURE_SAMPLES);
            let best = (0..sampled)
                .filter_map(|at| Some((self.shard.victims().of_segment(candidates[at], need)?, at)))
                .min();
            let at = best.map(|(_, at)| at).or_else(|| {
                (0..sampled)
                    .find(|at| self.shard.victims().revoked(candidates[*at], need).is_some())
            });
            let Some(at) = at else {
                candidates.drain(..sampled);
                continue;
            };
            let segment = candidates.remove(at);
            if let Some(extent) = self.shard.evict_until_fits(segment, bytes, self.request.payer) {
                return extents.push((segment, extent));
            }
        }
    }

    /// Allocates from free space, above the watermark only if there is none below it; segments that
    /// were used or are too small leave `candidates`.
    fn in_free_space(
        &mut self,
        candidates: &mut Vec<u32>,
        extents: &mut Vec<(u32, Extent)>,
        hosts: Hosts,
    ) {
        let watermark_ratio = self.shard.settings.watermark_ratio;
        self.in_free_space_below(watermark_ratio, candidates, extents, hosts);
        if watermark_ratio < 1.0 {
            self.in_free_space_below(1.0, candidates, extents, hosts);
        }
    }

    /// Allocates from free space of segments of which no more than a part is used then.
    fn in_free_space_below(
        &mut self,
        ratio: f64,
        candidates: &mut Vec<u32>,
        extents: &mut Vec<(u32, Extent)>,
        hosts: Hosts,
    ) {
        let bytes = extent_bytes(self.request.payload_bytes);
        let wanted = self.request.config.replica_num as usize;
        let Self { shard: KeyShard { space, .. }, .. } = self;
        candidates.retain(|segment| {
            let is_left = hosts == Hosts::Apart && shares_host(space, *segment, extents);
            if extents.len() == wanted || is_left {
                return true;
            }
            if ratio < 1.0 && !space.stays_below(*segment, bytes, ratio) {
                return true;
            }
            match space.alloc(*segment, bytes) {
                Some(extent) => {
                    extents.push((*segment, extent));
                    false
                }
                None => space.get(*segment).is_some_and(|it| it.usable_bytes() >= bytes),
            }
        });
    }

    /// Takes the segments that the writer wants to avoid out of `candidates`.
    fn split_off_excluded(&self, candidates: &mut Vec<u32>) -> Vec<u32> {
        if self.request.config.excluded.is_empty() {
            return Vec::new();
        }
        let is_excluded = |segment: &mut u32| {
            self.shard
                .space
                .get(*segment)
                .is_some_and(|share| self.request.config.excluded.contains(&share.spec.id))
        };
        candidates.extract_if(.., is_excluded).collect()
    }
}

/// Whether another host than those of the replicas that are placed is left.
fn has_apart(space: &Space, candidates: &[u32], extents: &[(u32, Extent)]) -> bool {
    candidates.iter().any(|segment| !shares_host(space, *segment, extents))
}

/// Whether a segment lies on the host of one of these.
fn shares_host(space: &Space, segment: u32, extents: &[(u32, Extent)]) -> bool {
    extents.iter().any(|(other, _)| space.is_same_host(segment, *other))
}
