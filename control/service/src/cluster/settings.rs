//! From the master's configuration to the settings of its state machines.

use std::time::SystemTime;

use crate::config::{AllocationStrategy, MasterConfig, TaskConfig};
use perigee_master::{RegistrySettings, ShardSettings, Strategy, TaskSettings};

/// Where epochs are counted from, the start of 2025, in seconds since 1970...
const EPOCH_ORIGIN_SECONDS: u64 = 1_735_689_600;
/// ... and their unit. There are 24 bits of them.
const EPOCH_UNIT_SECONDS: u64 = 64;

/// Settings of the registry of clients and segments.
pub(super) fn registry_settings(config: &MasterConfig, first: u32) -> RegistrySettings {
    RegistrySettings {
        generation_base: generation_base(first),
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
        strategy: match config.allocation {
            AllocationStrategy::Random => Strategy::Random,
            AllocationStrategy::LocalFirst => Strategy::LocalFirst,
            AllocationStrategy::FreeRatioFirst => Strategy::FreeRatioFirst,
        },
        seed: epoch,
        generation_base: generation_base(first),
    }
}

/// The least generation of an epoch, which is not 0. Owners that have heard of a later epoch raise
/// it before anything of theirs is taken over.
fn generation_base(first: u32) -> u64 {
    u64::from(first.max(1)) << 40
}

/// The least epoch of a master that starts now: later starts have later ones, by a clock that is
/// right to a minute, also for owners that do not tell what they have heard of.
pub(super) fn epoch_of_start() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let units = since.as_secs().saturating_sub(EPOCH_ORIGIN_SECONDS) / EPOCH_UNIT_SECONDS;
    u32::try_from(units & 0xff_ffff).unwrap_or_default().max(1)
}
