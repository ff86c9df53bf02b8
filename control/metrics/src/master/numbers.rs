//! Numbers of the master's state at one moment. Invariant: parts of several shards add up with
//! [`MasterNumbers::merge`]; nothing here is an average.

use crate::cell::HistogramTotals;
use perigee_schemas::DiskHealth;
use std::collections::HashMap;

/// Numbers of one mounted segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentNumbers {
    /// Segment name; several segments may share one.
    pub name: String,
    /// Bytes allocated.
    pub allocated_bytes: u64,
    /// Bytes of the segment that can be allocated.
    pub capacity_bytes: u64,
    /// Largest free extent in bytes.
    pub largest_free_bytes: u64,
}

impl SegmentNumbers {
    /// One entry per name, in the order of the first of each: segments of the same name are added
    /// up, their largest free extent is the largest of all.
    #[must_use]
    pub fn by_name(segments: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let (mut named, mut places) = (Vec::<Self>::new(), HashMap::new());
        for segment in segments {
            let place = *places.entry(segment.name.clone()).or_insert(named.len());
            let Some(known) = named.get_mut(place) else {
                named.push(segment);
                continue;
            };
            known.allocated_bytes += segment.allocated_bytes;
            known.capacity_bytes += segment.capacity_bytes;
            known.largest_free_bytes = known.largest_free_bytes.max(segment.largest_free_bytes);
        }
        named
    }
}

/// Numbers of the master's state; counters count since its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MasterNumbers {
    /// Bytes allocated in all segments.
    pub allocated_bytes: u64,
    /// Bytes of all segments that can be allocated.
    pub capacity_bytes: u64,
    /// Keys.
    pub keys: u64,
    /// Keys under a soft pin.
    pub soft_pinned_keys: u64,
    /// Complete replicas in memory.
    pub memory_replicas: u64,
    /// Clients that are alive. Set by one part only; parts add up.
    pub active_clients: u64,
    /// Freed bytes waiting for leases or late writers.
    pub parked_bytes: u64,
    /// Bytes of discarded writes still parked.
    pub staging_bytes: u64,
    /// Sizes of objects written, in the buckets of `master_value_size_bytes` (4 KiB to 64 MiB, and
    /// above), with their sum.
    pub value_sizes: HistogramTotals,
    /// PutStart calls refused for lack of space.
    pub allocation_failures: u64,
    /// PutStart calls that got fewer replicas than asked.
    pub partial_allocations: u64,
    /// Look-ups that found a complete replica in memory.
    pub memory_hits: u64,
    /// Payload bytes of those.
    pub memory_hit_bytes: u64,
    /// Keys asked for by existence checks.
    pub total_checks: u64,
    /// Of those, keys that were there.
    pub valid_checks: u64,
    /// Look-ups that found a complete replica.
    pub valid_gets: u64,
    /// Look-ups.
    pub total_gets: u64,
    /// Eviction rounds.
    pub evictions_attempted: u64,
    /// Eviction rounds that freed space.
    pub evictions_successful: u64,
    /// Keys evicted.
    pub evicted_keys: u64,
    /// Bytes freed by eviction.
    pub evicted_bytes: u64,
    /// Objects evicted because a segment was above its watermark.
    pub evicted_for_watermark: u64,
    /// Objects evicted inside a write that found no space.
    pub evicted_for_write: u64,
    /// Unfinished writes discarded.
    pub discarded_writes: u64,
    /// Discarded writes whose space is free again.
    pub released_writes: u64,
    /// Read leases granted.
    pub read_leases: u64,
    /// Probe leases granted.
    pub probe_leases: u64,
    /// Probe leases broken to make room.
    pub probe_leases_broken: u64,
    /// Replicas on their way to another segment.
    pub moves: u64,
    /// Replicas that were moved.
    pub moved_replicas: u64,
    /// Payload bytes of those.
    pub moved_bytes: u64,
    /// Moves that failed.
    pub failed_moves: u64,
    /// Copies beside a replica: started, ended, revoked.
    pub copies: [u64; 3],
    /// Copies in place of a replica: started, ended, revoked.
    pub replacements: [u64; 3],
    /// Objects that are to have more replicas because they lost some.
    pub repairs: u64,
    /// Copies for those: started, ended, revoked.
    pub repaired: [u64; 3],
    /// Objects that lost a replica and get no other one, because too many waited.
    pub repairs_dropped: u64,
    /// Replicas in memory that there are because their keys were hot.
    pub extra_replicas: u64,
    /// Copies for hot keys: started, ended, revoked.
    pub heated: [u64; 3],
    /// Replicas of hot keys that were evicted.
    pub extras_evicted: u64,
    /// Hot keys: one more replica wanted, enough, paused, no room.
    pub hot_keys: [u64; 4],
    /// Clients that stopped pinging.
    pub clients_expired: u64,
    /// Payload bytes of the copies on disks.
    pub disk_bytes: u64,
    /// Bytes of all disks. Set by one part only; parts add up.
    pub disk_capacity_bytes: u64,
    /// Disks of clients by their health. Set by one part only; parts add up.
    pub disks: [u64; DiskHealth::ALL.len()],
    /// Copies on disks.
    pub disk_copies: u64,
    /// Look-ups that found a copy on a disk alone.
    pub disk_hits: u64,
    /// Payload bytes of those.
    pub disk_hit_bytes: u64,
    /// Copies from disks back to memory under way.
    pub promotions: u64,
    /// Copies from disks back to memory: started, ended, revoked.
    pub promoted: [u64; 3],
    /// Those of them that a question for their keys has begun.
    pub promotions_on_exist: u64,
    /// Payload bytes of those that are complete.
    pub promoted_bytes: u64,
    /// Reads on disks that led to no copy: too seldom, no room, too many under way.
    pub promotions_rejected: [u64; 3],
    /// Copies to disks under way.
    pub demotions: u64,
    /// Copies to disks: started, ended, revoked.
    pub demoted: [u64; 3],
    /// Payload bytes of those that are complete.
    pub demoted_bytes: u64,
    /// Keys that eviction removed though a disk was to have a copy of them.
    pub unsaved_keys: u64,
    /// Keys evicted without a copy for the write budgets of disks: while begins of prefixes were
    /// admitted beside hits, hits alone, nothing.
    pub demotions_refused: [u64; 3],
    /// Bytes that may be written to disks at once, and that flow in within a day; 0 without bounds.
    pub write_budget: [u64; 2],
    /// Copies that went because the log of their disk used the space again.
    pub recycled_copies: u64,
    /// Copies on disks that their readers could not read.
    pub unreadable_copies: u64,
    /// Void copies on disks that their owners have not erased yet.
    pub tombstones: u64,
    /// Memory that quotas of tenants are parts of. Set by one part only; parts add up.
    pub quota_capacity_bytes: u64,
    /// Puts refused because their tenants have no quota. Set by one part only; parts add up.
    pub strangers: u64,
}

impl MasterNumbers {
    /// Adds the numbers of another part of the state.
    pub fn merge(&mut self, other: Self) {
        self.allocated_bytes += other.allocated_bytes;
        self.capacity_bytes += other.capacity_bytes;
        self.value_sizes.merge(&other.value_sizes);
        self.keys += other.keys;
        self.soft_pinned_keys += other.soft_pinned_keys;
        self.memory_replicas += other.memory_replicas;
        self.active_clients += other.active_clients;
        self.parked_bytes += other.parked_bytes;
        self.staging_bytes += other.staging_bytes;
        self.allocation_failures += other.allocation_failures;
        self.partial_allocations += other.partial_allocations;
        self.memory_hits += other.memory_hits;
        self.memory_hit_bytes += other.memory_hit_bytes;
        self.total_checks += other.total_checks;
        self.valid_checks += other.valid_checks;
        self.valid_gets += other.valid_gets;
        self.total_gets += other.total_gets;
        self.evictions_attempted += other.evictions_attempted;
        self.evictions_successful += other.evictions_successful;
        self.evicted_keys += other.evicted_keys;
        self.evicted_bytes += other.evicted_bytes;
        self.evicted_for_watermark += other.evicted_for_watermark;
        self.evicted_for_write += other.evicted_for_write;
        self.discarded_writes += other.discarded_writes;
        self.released_writes += other.released_writes;
        self.read_leases += other.read_leases;
        self.probe_leases += other.probe_leases;
        self.probe_leases_broken += other.probe_leases_broken;
        self.moves += other.moves;
        self.moved_replicas += other.moved_replicas;
        self.moved_bytes += other.moved_bytes;
        self.failed_moves += other.failed_moves;
        for step in 0..3 {
            self.copies[step] += other.copies[step];
            self.replacements[step] += other.replacements[step];
            self.repaired[step] += other.repaired[step];
            self.heated[step] += other.heated[step];
        }
        for (keys, more) in self.hot_keys.iter_mut().zip(other.hot_keys) {
            *keys += more;
        }
        self.extra_replicas += other.extra_replicas;
        self.extras_evicted += other.extras_evicted;
        self.repairs += other.repairs;
        self.repairs_dropped += other.repairs_dropped;
        self.clients_expired += other.clients_expired;
        self.merge_disks(&other);
    }

    fn merge_disks(&mut self, other: &Self) {
        self.disk_bytes += other.disk_bytes;
        self.disk_capacity_bytes += other.disk_capacity_bytes;
        for (disks, more) in self.disks.iter_mut().zip(other.disks) {
            *disks += more;
        }
        self.disk_copies += other.disk_copies;
        self.disk_hits += other.disk_hits;
        self.disk_hit_bytes += other.disk_hit_bytes;
        self.demotions += other.demotions;
        self.promotions += other.promotions;
        self.promotions_on_exist += other.promotions_on_exist;
        self.promoted_bytes += other.promoted_bytes;
        for step in 0..3 {
            self.demoted[step] += other.demoted[step];
            self.promoted[step] += other.promoted[step];
            self.promotions_rejected[step] += other.promotions_rejected[step];
            self.demotions_refused[step] += other.demotions_refused[step];
        }
        for (bytes, more) in self.write_budget.iter_mut().zip(other.write_budget) {
            *bytes += more;
        }
        self.demoted_bytes += other.demoted_bytes;
        self.unsaved_keys += other.unsaved_keys;
        self.recycled_copies += other.recycled_copies;
        self.unreadable_copies += other.unreadable_copies;
        self.tombstones += other.tombstones;
        self.quota_capacity_bytes += other.quota_capacity_bytes;
        self.strangers += other.strangers;
    }
}
