//! What a shard counts for the metrics.
//! Invariant: counters only grow; gauges are read from the state when they are asked for.

use perigee_schemas::Status;

use crate::columns::ReplicaColumns;
use crate::moving::Purpose;

/// Upper bounds in bytes of the buckets of [`ShardCounters::value_bytes_buckets`]; one more bucket
/// has no bound.
pub const VALUE_BYTES_BUCKETS: [u64; 7] =
    [4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];

/// Counters since the start of the shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardCounters {
    /// Times that eviction was tried.
    pub evictions_attempted: u64,
    /// Of those, times that something was evicted.
    pub evictions_successful: u64,
    /// Keys that eviction removed.
    pub evicted_keys: u64,
    /// Payload bytes of evicted replicas.
    pub evicted_bytes: u64,
    /// Unfinished puts discarded by timeout or preemption.
    pub discarded_puts: u64,
    /// Extents of discarded puts whose space was released.
    pub discard_released: u64,
    /// Put starts without space.
    pub alloc_failures: u64,
    /// Put starts that got fewer replicas than asked for.
    pub partial_allocations: u64,
    /// Keys asked for by existence checks.
    pub total_checks: u64,
    /// Of those, keys that were there.
    pub valid_checks: u64,
    /// Keys looked up for reading.
    pub total_gets: u64,
    /// Of those, keys that were found.
    pub valid_gets: u64,
    /// Replica reads granted in memory.
    pub cache_hits: u64,
    /// Payload bytes of those.
    pub cache_hit_bytes: u64,
    /// Replicas that were moved or copied to another segment.
    pub moved_replicas: u64,
    /// Payload bytes of those.
    pub moved_bytes: u64,
    /// Moves that failed or took too long.
    pub failed_moves: u64,
    /// Copies beside a replica, for tasks.
    pub copies: RelocationCounts,
    /// Copies in place of a replica, for drains and tasks.
    pub moves: RelocationCounts,
    /// Copies for objects that lost a replica with its segment.
    pub repairs: RelocationCounts,
    /// Objects that lost a replica and get no other one, because too many waited for theirs.
    pub repairs_dropped: u64,
    /// Copies for keys that are hot.
    pub heated: RelocationCounts,
    /// What came of keys that were hot.
    pub heat: HeatCounts,
    /// Copies from disks back to memory.
    pub promotions: RelocationCounts,
    /// Those of them that were begun because it was asked whether their keys exist.
    pub promotions_on_exist: u64,
    /// Payload bytes of those that are complete.
    pub promoted_bytes: u64,
    /// Reads of objects on disks that led to no copy.
    pub promotions_rejected: RejectedPromotions,
    /// Copies to disks.
    pub demotions: RelocationCounts,
    /// Payload bytes of those that are complete.
    pub demoted_bytes: u64,
    /// Keys that eviction removed though a disk was to have a copy of them.
    pub unsaved_keys: u64,
    /// Keys that eviction removed without a copy because of the write budgets of disks.
    pub demotions_refused: RefusedDemotions,
    /// Copies on disks that went because their logs used the space again.
    pub recycled_copies: u64,
    /// Copies on disks that their readers could not read.
    pub unreadable_copies: u64,
    /// Void copies that were not noted one by one, because their owner had left too many
    /// unconfirmed.
    pub tombstones_overrun: u64,
    /// Replica reads granted on disks alone.
    pub disk_hits: u64,
    /// Payload bytes of those.
    pub disk_hit_bytes: u64,
    /// Finished puts.
    pub puts_ended: u64,
    /// Payload bytes of finished puts.
    pub value_bytes_sum: u64,
    /// Finished puts by payload size, not cumulative, by [`VALUE_BYTES_BUCKETS`] and one beyond.
    pub value_bytes_buckets: [u64; VALUE_BYTES_BUCKETS.len() + 1],
}

/// Reads of objects on disks that led to no copy in memory, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RejectedPromotions {
    /// The object was read too seldom.
    pub frequency: u64,
    /// No memory had room.
    pub watermark: u64,
    /// Too many copies were under way.
    pub cap: u64,
}

/// Keys that no disk had budget for, by what was admitted when they were evicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefusedDemotions {
    /// What was read or came back, and begins of prefixes.
    pub heads_too: u64,
    /// What was read or came back.
    pub hits: u64,
    /// Nothing, or less than the object.
    pub nothing: u64,
}

/// What came of keys that were read often, by decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeatCounts {
    /// One more replica is to be made, or would be.
    pub wanted: u64,
    /// The key has as many as it may have.
    pub enough: u64,
    /// It was hot, or lost such a replica, a short while ago.
    pub paused: u64,
    /// No segment has room, or too many keys wait.
    pub no_room: u64,
    /// Replicas of hot keys that were evicted.
    pub evicted: u64,
}

/// Copies of one kind that clients carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelocationCounts {
    /// Given to a client.
    pub started: u64,
    /// Of those, complete.
    pub ended: u64,
    /// Of those, given up.
    pub revoked: u64,
}

impl ShardCounters {
    pub(crate) fn relocation(&mut self, purpose: Purpose) -> &mut RelocationCounts {
        match purpose {
            Purpose::Copy => &mut self.copies,
            Purpose::Drain | Purpose::Move => &mut self.moves,
            Purpose::Promotion => &mut self.promotions,
            Purpose::Repair => &mut self.repairs,
            Purpose::Heat => &mut self.heated,
        }
    }

    /// Counts lookups for reading, of which so many keys, with so many bytes, lie on disks alone.
    pub(crate) fn count_gets(&mut self, out: &ReplicaColumns, on_disk: (u64, u64)) {
        let hits = out.status.iter().filter(|status| **status == Status::Ok.code()).count() as u64;
        self.total_gets += out.status.len() as u64;
        self.valid_gets += hits;
        let (disk_hits, disk_hit_bytes) = on_disk;
        self.disk_hits += disk_hits;
        self.disk_hit_bytes += disk_hit_bytes;
        self.cache_hits += hits - disk_hits;
        let hit_bytes: u64 = out.payload_bytes.iter().sum();
        self.cache_hit_bytes += hit_bytes - disk_hit_bytes;
    }

    pub(crate) fn count_value(&mut self, payload_bytes: u64) {
        self.puts_ended += 1;
        self.value_bytes_sum += payload_bytes;
        let bucket = VALUE_BYTES_BUCKETS.partition_point(|bound| *bound < payload_bytes);
        self.value_bytes_buckets[bucket] += 1;
    }
}

/// The state of a shard in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardGauges {
    /// Keys, unfinished puts included.
    pub keys: u64,
    /// Keys whose soft pin has not run out.
    pub soft_pinned_keys: u64,
    /// Unfinished puts and upserts.
    pub pending_puts: u64,
    /// Moves under way.
    pub moves: u64,
    /// Objects that are to have more replicas because they lost some.
    pub repairs: u64,
    /// Of those, objects that wait for a segment or for room in one.
    pub repairs_put_off: u64,
    /// Replicas in memory that there are because their keys were hot.
    pub extra_replicas: u64,
    /// Copies from disks back to memory under way.
    pub promotions: u64,
    /// Copies to disks under way.
    pub demotions: u64,
    /// Bytes in memory that those keep from eviction.
    pub demoting_bytes: u64,
    /// Disks that take no copies because of what their owners say of them.
    pub ailing_disks: u64,
    /// Void copies on disks that their owners have not confirmed.
    pub tombstones: u64,
    /// Replicas of this shard's keys that lie on disks.
    pub disk_copies: u64,
    /// Payload bytes of those.
    pub disk_bytes: u64,
    /// Bytes that may be written to disks at once; 0 without a bound.
    pub budget_left_bytes: u64,
    /// Bytes that may be written to disks within a day; 0 without a bound.
    pub budget_bytes_per_day: u64,
    /// Allocated bytes in all segments: payloads, footers and quarantined space.
    pub allocated_bytes: u64,
    /// Bytes of the shares of all mounted segments.
    pub capacity_bytes: u64,
    /// Bytes that are not used but not free yet either.
    pub parked_bytes: u64,
    /// Of those, bytes of discarded puts.
    pub staging_bytes: u64,
}

/// The state of this shard's share of one segment in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentGauges {
    /// The segment's number.
    pub segment: u32,
    /// Size of the share in bytes.
    pub capacity_bytes: u64,
    /// Bytes of the segment in use: payloads, footers and quarantined space.
    pub allocated_bytes: u64,
    /// Length in bytes of the longest extent that can be allocated: free, and memory that the owner
    /// has.
    pub largest_free_bytes: u64,
    /// Number of replicas, unfinished ones included.
    pub replicas: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_a_bound_belong_to_the_bucket_below_it() {
        let mut counters = ShardCounters::default();
        for bytes in [1, 4096, 4097, 64 << 20, (64 << 20) + 1] {
            counters.count_value(bytes);
        }
        assert_eq!(counters.value_bytes_buckets, [2, 1, 0, 0, 0, 0, 1, 1]);
    }
}
