//! From the master's configuration to the settings of its state machines.

use std::time::SystemTime;

use crate::config::{AllocationStrategy, MasterConfig, TaskConfig};
use perigee_master::{RegistrySettings, ShardSettings, Strategy, TaskSettings};

/// Where epochs are counted from, the start of 2025, in seconds since 1970...
const EPOCH_ORIGIN_SECONDS: u64 = 1_735_689_600;
/// ... and their unit. There are 24 bits of them.
const EPOCH_UNIT_SECONDS: u64 = 64;

/// Lives of a master that begin in one epoch count from one of so many places, in bits...
const LIFE_BITS: u32 = 16;
/// ... which lie so far apart, in bits, that no life reaches the next one soon.
const LIFE_SHIFT: u32 = 23;

/// Settings of the registry of clients and segments.
pub(super) fn registry_settings(
    config: &MasterConfig,
    (epoch, first): (u64, u32),
) -> RegistrySettings {
    RegistrySettings {
        generation_base: generation_base(epoch, first),
        client_ttl_ms: config.client_ttl_ms,
        confirms: config.rpc.verify_segments,
        takes_disks: config.offload.is_some(),
        tasks: task_settings(&config.tasks),
    }
}

fn task_settings(config: &TaskConfig) -> TaskSettings {
    TaskSettings {
        pending_max: config.pending_max,
        processing_max: config.processing_max,
        finished_max: config.finished_max,
        pending_timeout_ms: config.pending_timeout_ms,
        processing_timeout_ms: config.processing_timeout_ms,
    }
}

/// Settings of the keys of one shard of `count`.
pub(super) fn key_settings(
    config: &MasterConfig,
    index: usize,
    count: usize,
    (epoch, first): (u64, u32),
) -> ShardSettings {
    ShardSettings {
        index,
        count,
        lease_ttl_ms: config.leases.read_ttl_ms,
        soft_pin_ttl_ms: config.leases.soft_pin_ttl_ms,
        soft_pin_ttl_max_ms: config.leases.soft_pin_ttl_ms_max,
        evict_soft_pinned: config.eviction.allow_soft_pinned,
        eviction_ratio: config.eviction.ratio,
        watermark_ratio: config.eviction.high_watermark_ratio,
        policy: config.eviction.policy,
        offload: config.offload,
        promotion: config.promotion,
        put_discard_timeout_ms: config.writes.discard_timeout_ms,
        put_release_timeout_ms: config.writes.release_timeout_ms,
        task_retries_max: config.tasks.retries_max,
        repairs: config.repairs,
        heat: config.heat,
        strategy: match config.allocation {
            AllocationStrategy::Random => Strategy::Random,
            AllocationStrategy::LocalFirst => Strategy::LocalFirst,
            AllocationStrategy::FreeRatioFirst => Strategy::FreeRatioFirst,
        },
        seed: epoch,
        generation_base: generation_base(epoch, first),
    }
}

/// The least generation of a life that begins in an epoch; it is not 0. Owners that have heard of
/// that epoch, or of a later one, raise it before anything of theirs is taken over. Until they come
/// others may lend memory, and what is put there must not have numbers of an earlier life.
fn generation_base(life: u64, first: u32) -> u64 {
    let place = life >> (u64::BITS - LIFE_BITS);
    let base = u64::from(first.max(1)) << 40 | place << LIFE_SHIFT;
    debug_assert_eq!(base >> 40, u64::from(first.max(1)), "a life begins in its epoch");
    base
}

/// The least epoch of a master that starts now: later starts have later ones, by a clock that is
/// right to a minute, also for owners that do not tell what they have heard of.
pub(super) fn epoch_of_start() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let units = since.as_secs().saturating_sub(EPOCH_ORIGIN_SECONDS) / EPOCH_UNIT_SECONDS;
    u32::try_from(units & 0xff_ffff).unwrap_or_default().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_that_begin_in_one_epoch_count_apart_and_stay_in_it() {
        let [one, other, last] = [1 << 60, 2 << 60, u64::MAX].map(|life| generation_base(life, 7));
        assert!(one.abs_diff(other) >= 1 << LIFE_SHIFT);
        for base in [one, other, last] {
            assert_eq!(base >> 40, 7);
            assert_eq!((base + (1 << 39)) >> 40, 7, "there is room to count");
        }
        assert!(generation_base(u64::MAX, 7) < generation_base(0, 8));
    }
}
