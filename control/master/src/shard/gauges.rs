//! The state of a shard in numbers.
//! Invariant: asking changes nothing but what is counted since it was asked last.

use crate::counters::{SegmentGauges, ShardGauges};

use super::KeyShard;

impl KeyShard {
    /// Most keys there were since this was asked last.
    pub fn take_peak_keys(&mut self) -> u64 {
        self.stored.keys.take_peak() as u64
    }

    /// The state in numbers.
    pub fn gauges(&self) -> ShardGauges {
        let mut gauges = ShardGauges {
            keys: self.stored.keys.len() as u64,
            soft_pinned_keys: self.stored.soft_pins.len() as u64,
            pending_puts: self.pending.len() as u64,
            moves: self.relocation.moves().len() as u64,
            demotions: self.tier.demotions.len() as u64,
            demoting_bytes: self.tier.demotions.bytes(),
            ailing_disks: self.space.ailing_disks(),
            repairs: self.wishes.len() as u64,
            repairs_put_off: self.wishes.count_put_off() as u64,
            extra_replicas: self.stored.extras,
            promotions: self.relocation.moves().promotions().into(),
            tombstones: self.tier.tombstones.len() as u64,
            parked_bytes: self.space.quarantine().bytes(),
            staging_bytes: self.space.quarantine().staging_bytes(),
            ..ShardGauges::default()
        };
        for segment in self.segment_gauges() {
            gauges.allocated_bytes += segment.allocated_bytes;
            gauges.capacity_bytes += segment.capacity_bytes;
        }
        for disk in self.space.disks() {
            gauges.disk_copies += self.stored.replicas_in(*disk) as u64;
            gauges.disk_bytes += self.space.get(*disk).map_or(0, |share| share.copied_bytes);
            if let Some(budget) = self.write_budget(self.space.disk_id(*disk)) {
                gauges.budget_left_bytes += budget.left_bytes;
                gauges.budget_bytes_per_day += budget.bytes_per_day;
            }
        }
        gauges
    }

    /// Names of the segments in memory that take no objects whatever is free there: they are
    /// drained, being drained or unmounted, or their owners are not verified.
    pub fn closed_segments(&self) -> impl Iterator<Item = &str> {
        let is_closed =
            |share: &&crate::share::SegmentShare| share.is_memory() && share.is_closed();
        let shares = self.space.iter().map(|(_, share)| share);
        shares.filter(is_closed).map(|share| share.spec.name.as_str())
    }

    /// The state of each readable segment in numbers, in order of segment numbers.
    pub fn segment_gauges(&self) -> impl Iterator<Item = SegmentGauges> + '_ {
        (0..self.space.bound()).filter_map(|segment| self.segment_gauge(segment))
    }

    /// The state of one segment in numbers, if it is readable.
    pub fn segment_gauge(&self, segment: u32) -> Option<SegmentGauges> {
        self.space.gauges_of(segment, self.stored.replicas.count_in(segment))
    }

    /// This shard's copies on a mounted disk in numbers. Its room is not shared between shards.
    pub fn disk_gauge(&self, disk: u32) -> Option<SegmentGauges> {
        let share = self.space.readable(disk).filter(|share| share.is_disk())?;
        Some(SegmentGauges {
            segment: disk,
            capacity_bytes: 0,
            allocated_bytes: share.copied_bytes,
            largest_free_bytes: 0,
            replicas: self.stored.replicas_in(disk) as u64,
        })
    }
}
