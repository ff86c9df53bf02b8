//! Puts of tenants whose quotas are used up although nothing of them may go on their shard: the
//! other shards evict for them.
//! Invariant: only objects of the tenant that puts are evicted, and no more than its puts lack.

use super::control_shard::ControlShard;
use super::lending::Startable;
use super::merge::Placements;
use perigee_master::{Effort, KeyShard};
use perigee_schemas::TenantId;
use perigee_schemas::extent::extent_bytes;
use perigee_shard::Environment;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rounds in which all shards evict: each its part, then each all that is lacking.
const ROUNDS: u64 = 2;

/// Puts of one tenant that its quota has no room for.
struct TenantNeed {
    /// One of their keys.
    key: Vec<u8>,
    bytes: u64,
    longest_bytes: u64,
}

impl<E: Environment> ControlShard<E> {
    /// Tries the puts again that quotas had no room for, after all shards have evicted for them.
    pub(super) async fn relieve_tenants(
        &self,
        keys: &[&[u8]],
        mut started: Placements,
        puts: &Arc<impl Startable>,
        effort: impl Fn(&mut KeyShard, u64) -> Effort + Clone + Send + 'static,
    ) -> Placements {
        let count = self.members().len() as u64;
        for round in 1..=ROUNDS {
            let over = started.over_quota();
            if over.is_empty() || count <= 1 {
                break;
            }
            let parts = if round == ROUNDS { 1 } else { count };
            for need in needs(keys, &over, puts.as_ref()).into_values() {
                self.evict_of_tenant(need, parts).await;
            }
            let again = self.try_start(keys, &over, puts, effort.clone()).await;
            started = started.replaced(&over, again);
        }
        for position in started.over_quota() {
            self.keys.borrow_mut().count_refused(keys[position]);
        }
        started
    }

    async fn evict_of_tenant(&self, need: TenantNeed, parts: u64) {
        let need = Arc::new(need);
        let asked: Vec<_> = (0..self.members().len())
            .map(|index| {
                let need = need.clone();
                self.on(index, move |shard| {
                    let lacking = (need.bytes, need.longest_bytes);
                    let mut keys = shard.keys.borrow_mut();
                    keys.evict_of_tenant(shard.now_ms(), &need.key, lacking, parts);
                })
            })
            .collect();
        for answer in asked {
            answer.await;
        }
    }
}

/// What each tenant needs for some puts of a batch.
fn needs(
    keys: &[&[u8]],
    positions: &[usize],
    puts: &impl Startable,
) -> BTreeMap<Vec<u8>, TenantNeed> {
    let mut needs = BTreeMap::new();
    for position in positions {
        let key = keys[*position];
        let bytes = extent_bytes(puts.payload_bytes()[*position]);
        let bytes = bytes.saturating_mul(puts.replicas().max(1) as u64);
        let empty = || TenantNeed { key: key.to_vec(), bytes: 0, longest_bytes: 0 };
        let need = needs.entry(TenantId::split(key).0.to_vec()).or_insert_with(empty);
        need.bytes = need.bytes.saturating_add(bytes);
        need.longest_bytes = need.longest_bytes.max(extent_bytes(puts.payload_bytes()[*position]));
        debug_assert!(need.longest_bytes <= need.bytes, "the longest is one of them");
    }
    needs
}
