//! From the master's configuration to the settings of its state machines.

use crate::config::{AllocationStrategy, MasterConfig, TaskConfig};
use perigee_master::{RegistrySettings, ShardSettings, Strategy, TaskSettings};

/// Settings of the registry of clients and segments.
pub(super) fn registry_settings(config: &MasterConfig) -> RegistrySettings {
    RegistrySettings {
        client_ttl_ms: config.client_ttl_ms,
        confirms: config.rpc.verify_segments,
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
    epoch: u64,
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
        put_discard_timeout_ms: config.writes.discard_timeout_ms,
        put_release_timeout_ms: config.writes.release_timeout_ms,
        task_retries_max: config.tasks.retries_max,
        strategy: match config.allocation {
            AllocationStrategy::Random => Strategy::Random,
            AllocationStrategy::LocalFirst => Strategy::LocalFirst,
            AllocationStrategy::FreeRatioFirst => Strategy::FreeRatioFirst,
        },
        seed: epoch,
        // The high bits are random and the low 40 count, so generations of two lives of the master
        // meet only by a chance of one in 2^23; the bit that is always set keeps every generation
        // from being 0.
        generation_base: epoch & !0xff_ffff_ffff | 1 << 40,
    }
}
