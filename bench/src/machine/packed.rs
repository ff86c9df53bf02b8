//! One shard of a master whose objects lie on a disk alone, as after a restart: calls per second,
//! and memory beside the keys.

use std::sync::Arc;

use perigee_master::{
    AnnouncedCopy, KeyShard, OffloadSettings, ReplicaColumns, SegmentEvent, SegmentKind,
    SegmentSpec, ShardSettings,
};
use perigee_schemas::disk_address::DiskAddress;

use super::Bench;
use super::shard::{STRIDE, expect, keep, timed};
use crate::cpu::resident_bytes;
use crate::error::BenchError;
use crate::master::load::key;
use crate::report::{Figure, FigureUnit, Goal, RateUnit};

const OWNER: u128 = 1;
const DISK: u32 = 0;
/// Objects of 1 MiB in segments of 256 MiB.
const PAYLOAD_BYTES: u64 = 1 << 20;
const COPIES_PER_SEGMENT: u64 = 256;
/// Beside its key an object takes no more, with its part of the index.
const BYTES_MOST: f64 = 64.0;

/// Takes rows of calls to one shard whose keys a disk has announced.
pub(super) fn take(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let count: usize = bench.settings.integer("keys");
    let names: Vec<String> = (0..count).map(key).collect();
    let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    let before = resident_bytes(std::process::id())?;
    let mut shard = shard();
    let (mut status, mut next, mut now_ms) = (Vec::new(), 0, 1);
    let announced = timed(&keys, |batch| {
        let copies: Vec<_> = (next..).zip(batch).map(|(number, key)| copy(number, key)).collect();
        next += batch.len() as u64;
        shard.announce_copies(now_ms, OWNER, DISK, &copies, next == count as u64, &mut status);
        expect("announcement", status.iter().all(|status| *status == 0))
    })?;
    shard.tick(now_ms, usize::MAX);
    let grown = resident_bytes(std::process::id())?.saturating_sub(before);
    expect("packing", shard.packed_keys() == keys.len())?;
    bench.push("shard, a disk announces its copies", RateUnit::Keys, &announced);

    let spread: Vec<&[u8]> = (0..keys.len()).map(|at| keys[at * STRIDE % keys.len()]).collect();
    let exist = timed(&spread, |batch| {
        now_ms += 1;
        shard.exist(now_ms, batch, &mut status);
        expect("exist", status.iter().all(|status| *status == 1))
    })?;
    bench.push("shard, exist, on a disk alone", RateUnit::Keys, &exist);
    let mut replicas = ReplicaColumns::default();
    let locate = timed(&spread, |batch| {
        now_ms += 1;
        shard.get_replicas(now_ms, batch, &mut replicas);
        shard.tick(now_ms, 4096);
        expect("locate", replicas.status.iter().all(|status| *status == 0))
    })?;
    bench.push("shard, locate, on a disk alone", RateUnit::Keys, &locate);
    let key_bytes: usize = keys.iter().map(|key| key.len()).sum();
    let beside = grown.saturating_sub(key_bytes as u64);
    bench.report.figures.push(Figure {
        name: format!("memory of an object on a disk alone, beside its key, {count} keys"),
        value: beside as f64 / keys.len() as f64,
        unit: FigureUnit::Bytes,
        goal: Some(Goal::AtMost(BYTES_MOST)),
    });
    keep(shard);
    Ok(())
}

/// An empty shard with a disk.
fn shard() -> KeyShard {
    let offload = OffloadSettings {
        on_evict: true,
        force_evict: true,
        queue_limit: 1,
        cap_ratio: 1.0,
        drive_writes_per_day: 0.0,
    };
    let settings = ShardSettings { offload: Some(offload), ..ShardSettings::default() };
    let mut shard = KeyShard::new(settings);
    let spec = SegmentSpec { kind: SegmentKind::Disk, ..SegmentSpec::bare(1, OWNER, 1 << 50) };
    shard.apply(0, &SegmentEvent::Mounted { index: DISK, spec: Arc::new(spec) });
    shard
}

fn copy<'a>(number: u64, key: &'a [u8]) -> AnnouncedCopy<'a> {
    let (segment, at) = (number / COPIES_PER_SEGMENT, number % COPIES_PER_SEGMENT);
    let address = DiskAddress { sequence: segment as u32, offset: (at * PAYLOAD_BYTES) as u32 };
    AnnouncedCopy {
        key,
        group: "",
        generation: number + 1,
        payload_bytes: PAYLOAD_BYTES,
        checksum: number as u32,
        writer: OWNER,
        address: address.pack(),
    }
}
