//! In which order segments are tried for new replicas.
//! Invariant: a ranking has each segment that takes objects once; the same seed and the same
//! requests give the same rankings.

use crate::limits::FREE_RATIO_SAMPLES_PER_REPLICA;
use crate::placement::PutConfig;
use crate::random::Xorshift;
use crate::settings::ShardSettings;
use crate::space::Space;
use crate::strategy::Strategy;

#[derive(Debug)]
pub(crate) struct SegmentRanking {
    strategy: Strategy,
    random: Xorshift,
    /// A ranking that was handed back, kept for its memory.
    spare: Vec<u32>,
}

impl SegmentRanking {
    pub(crate) fn new(settings: &ShardSettings) -> Self {
        let seed = settings.seed.wrapping_add(settings.index as u64);
        Self { strategy: settings.strategy, random: Xorshift::new(seed), spare: Vec::new() }
    }

    /// All segments that take objects: the one of the batch, the preferred ones, then in the
    /// strategy's order. The answer goes back to [`SegmentRanking::reuse`].
    pub(crate) fn rank(
        &mut self,
        space: &Space,
        hash: u64,
        config: &PutConfig<'_>,
        same_node: Option<u32>,
    ) -> Vec<u32> {
        let mut ranked = std::mem::take(&mut self.spare);
        ranked.clear();
        ranked.extend(same_node.filter(|segment| space.live().contains(segment)));
        for name in config.preferred_segments {
            for segment in space.live() {
                let named = space.get(*segment).is_some_and(|share| share.spec.name == **name);
                if named && !ranked.contains(segment) {
                    ranked.push(*segment);
                }
            }
        }
        let chosen = ranked.len();
        self.rank_by_strategy(space, hash, config, &mut ranked);
        if chosen > 0 {
            let preferred: Vec<u32> = ranked[..chosen].to_vec();
            let mut at = 0;
            ranked.retain(|segment| {
                at += 1;
                at <= chosen || !preferred.contains(segment)
            });
        }
        debug_assert_eq!(ranked.len(), space.live().len(), "each live segment, once");
        ranked
    }

    /// Takes a ranking back for its memory.
    pub(crate) fn reuse(&mut self, ranked: Vec<u32>) {
        self.spare = ranked;
    }

    fn rank_by_strategy(
        &mut self,
        space: &Space,
        hash: u64,
        config: &PutConfig<'_>,
        out: &mut Vec<u32>,
    ) {
        let from = out.len();
        if self.strategy == Strategy::LocalFirst && config.replica_num == 1 {
            out.extend_from_slice(space.live());
            sort_local_first(space, hash, config, &mut out[from..]);
            return;
        }
        self.rotate_live(space, out);
        if self.strategy == Strategy::FreeRatioFirst {
            let samples = FREE_RATIO_SAMPLES_PER_REPLICA * config.replica_num as usize;
            let until = out.len().min(from + samples);
            let ratio = |segment: &u32| space.get(*segment).map_or(1.0, |it| it.used_ratio());
            out[from..until].sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        }
    }

    /// All live segments from a random one on.
    fn rotate_live(&mut self, space: &Space, out: &mut Vec<u32>) {
        let live = space.live();
        if !live.is_empty() {
            let start = self.random.below(live.len());
            out.extend_from_slice(&live[start..]);
            out.extend_from_slice(&live[..start]);
        }
    }
}

/// The writer's host, then the other hosts in lexical order, starting at one that the key chooses.
fn sort_local_first(space: &Space, hash: u64, config: &PutConfig<'_>, segments: &mut [u32]) {
    let host = |segment: &u32| space.get(*segment).map_or("", |share| share.spec.host_name());
    segments.sort_by_key(|segment| (!is_local(space, *segment, config), host(segment)));
    let local = segments.partition_point(|segment| is_local(space, *segment, config));
    let remote = &mut segments[local..];
    if !remote.is_empty() {
        remote.rotate_left((hash % remote.len() as u64) as usize);
    }
}

fn is_local(space: &Space, segment: u32, config: &PutConfig<'_>) -> bool {
    let Some(share) = space.get(segment) else {
        return false;
    };
    let named = is_routable(config.host_name) && share.spec.host_name() == config.host_name;
    named || (!config.host_id.is_empty() && share.spec.host_id == config.host_id)
}

/// Loopback and wildcard addresses name no particular host.
fn is_routable(host: &str) -> bool {
    !(host.is_empty()
        || host == "localhost"
        || host.starts_with("127.")
        || matches!(host, "0.0.0.0" | "::" | "[::]" | "::1" | "[::1]"))
}
