//! What an operator can set about a shard.
//! Invariant: fixed for the life of the shard; lease lists rely on a constant lease time.

use crate::limits::HEAT_ROOM_RATIO;
use crate::policy::PolicyName;
use crate::strategy::Strategy;

/// When and how much goes from memory to disks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffloadSettings {
    /// What eviction would take is copied; otherwise every put is, at once.
    pub on_evict: bool,
    /// A put that needs room evicts what has no copy yet; otherwise that stays, and the put is
    /// refused.
    pub force_evict: bool,
    /// Most copies under way.
    pub queue_limit: usize,
    /// Most bytes of a segment that are on their way to a disk, as a ratio of its capacity.
    pub cap_ratio: f64,
    /// How often all of a disk may be written within a day, as its makers name it (DWPD); 0 for as
    /// often as may be.
    pub drive_writes_per_day: f64,
}

/// When objects go from disks back to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromotionSettings {
    /// Reads after which an object is copied, counted in a sketch that forgets; none if reads alone
    /// lead to no copy.
    pub threshold: Option<u8>,
    /// An object is copied as soon as it is asked whether it exists.
    pub on_exist: bool,
    /// Most copies under way.
    pub queue_limit: usize,
}

/// When objects that are read often get more replicas in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeatSettings {
    /// Replicas are made; otherwise it is only counted which would be.
    pub enforce: bool,
    /// Length of the time in which reads are counted.
    pub window_ms: u32,
    /// Reads within it that make a key hot.
    pub reads_needed: u32,
    /// Most replicas in memory that a hot key has.
    pub replicas_max: u32,
}

/// Settings of one shard; all times in milliseconds.
#[derive(Debug, Clone)]
pub struct ShardSettings {
    /// This shard's number, below `count`.
    pub index: usize,
    /// Number of shards of the master, at least 1.
    pub count: usize,
    /// Length of the lease that a read or an existence probe grants.
    pub lease_ttl_ms: u64,
    /// Length of a soft pin whose request names none.
    pub soft_pin_ttl_ms: u64,
    /// Longest soft pin that a request may name.
    pub soft_pin_ttl_max_ms: u64,
    /// Whether soft-pinned objects may be evicted when nothing else is left.
    pub evict_soft_pinned: bool,
    /// Most of a segment's share that one tick evicts, as a ratio of its capacity.
    pub eviction_ratio: f64,
    /// Used ratio of a segment's share above which ticks evict.
    pub watermark_ratio: f64,
    /// Age from which another writer may preempt an unfinished put.
    pub put_discard_timeout_ms: u64,
    /// Time from the start of a discarded put until its space may be used again.
    pub put_release_timeout_ms: u64,
    /// Times that a copy which a task asked for is tried again.
    pub task_retries_max: u32,
    /// Whether objects that lost a replica with its segment get another one.
    pub repairs: bool,
    /// Whether reads are counted, so that hot keys get more replicas.
    pub heat: Option<HeatSettings>,
    /// How segments are chosen for new replicas.
    pub strategy: Strategy,
    /// What is evicted first.
    pub policy: PolicyName,
    /// Whether objects go to the disks of their owners.
    pub offload: Option<OffloadSettings>,
    /// Whether objects come back from there.
    pub promotion: Option<PromotionSettings>,
    /// Random number of this life of the master: seed of the random choices, and part of the names
    /// of leases.
    pub seed: u64,
    /// First generation number, not 0: larger than those of earlier lives of the master, as far as
    /// it can know.
    pub generation_base: u64,
}

impl ShardSettings {
    /// Part of a segment beyond which nothing is copied there from disks.
    pub(crate) fn promotion_watermark(&self) -> f64 {
        (1.0 + self.watermark_ratio) / 2.0
    }

    /// Part of a segment beyond which it takes no replicas of hot keys.
    pub(crate) fn heat_ratio(&self) -> f64 {
        HEAT_ROOM_RATIO.min(self.watermark_ratio)
    }

    /// How many shards may lend space to this one.
    pub(crate) fn lenders(&self) -> u64 {
        self.count.saturating_sub(1).max(1) as u64
    }
}

impl Default for ShardSettings {
    fn default() -> Self {
        Self {
            index: 0,
            count: 1,
            lease_ttl_ms: 10_000,
            soft_pin_ttl_ms: 1_800_000,
            soft_pin_ttl_max_ms: 86_400_000,
            evict_soft_pinned: true,
            eviction_ratio: 0.05,
            watermark_ratio: 0.90,
            put_discard_timeout_ms: 30_000,
            put_release_timeout_ms: 600_000,
            task_retries_max: 10,
            repairs: true,
            heat: None,
            strategy: Strategy::Random,
            policy: PolicyName::default(),
            offload: None,
            promotion: None,
            seed: 1,
            generation_base: 1,
        }
    }
}
