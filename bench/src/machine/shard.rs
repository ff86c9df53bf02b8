//! One shard of a master without its process: calls per second and memory per key.

use std::sync::Arc;
use std::time::Instant;

use perigee_master::{
    Effort, KeyShard, PlacementColumns, PutConfig, PutStart, ReplicaColumns, SegmentEvent,
    SegmentSpec, ShardSettings, StartedPuts,
};

use super::Bench;
use crate::cpu::resident_bytes;
use crate::error::BenchError;
use crate::load::drive::Measured;
use crate::master::load::key;
use crate::report::{Figure, FigureUnit, RateUnit};

const BATCH: usize = 256;
const PAYLOAD_BYTES: u64 = 4000;
const SEGMENT_BYTES_PER_KEY: u64 = 8192;
/// Keys asked for one after the other lie so far apart.
pub(super) const STRIDE: usize = 7_919;

/// Takes rows of calls to one shard.
pub(super) fn take(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let names: Vec<String> = (0..bench.settings.integer("keys")).map(key).collect();
    let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    let before = resident_bytes(std::process::id())?;
    let mut shard = shard(keys.len());
    let puts = timed(&keys, |batch| put(&mut shard, batch))?;
    let grown = resident_bytes(std::process::id())?.saturating_sub(before);
    bench.push("shard, put start and end", RateUnit::Keys, &puts);

    let spread: Vec<&[u8]> = (0..keys.len()).map(|at| keys[at * STRIDE % keys.len()]).collect();
    let (mut status, mut now_ms) = (Vec::new(), 1);
    let exist = timed(&spread, |batch| {
        now_ms += 1;
        shard.exist(now_ms, batch, &mut status);
        expect("exist", status.iter().all(|status| *status == 1))
    })?;
    bench.push("shard, exist", RateUnit::Keys, &exist);
    let mut replicas = ReplicaColumns::default();
    let locate = timed(&spread, |batch| {
        now_ms += 1;
        shard.get_replicas(now_ms, batch, &mut replicas);
        Ok(())
    })?;
    bench.push("shard, locate", RateUnit::Keys, &locate);
    bench.report.figures.push(Figure {
        name: format!("memory per key of a shard, {} keys", keys.len()),
        value: grown as f64 / keys.len() as f64,
        unit: FigureUnit::Bytes,
        goal: None,
    });
    keep(shard);
    Ok(())
}

/// Keeps a shard to the end of the program: what is measured after it is to grow the process, and
/// not to find memory that is free again.
pub(super) fn keep(shard: KeyShard) {
    Box::leak(Box::new(shard));
}

/// An empty shard with a segment for so many keys.
fn shard(keys: usize) -> KeyShard {
    let mut shard = KeyShard::new(ShardSettings::default());
    let spec = Arc::new(SegmentSpec::bare(1, 1, keys as u64 * SEGMENT_BYTES_PER_KEY));
    shard.apply(0, &SegmentEvent::Mounted { index: 0, spec });
    shard
}

fn put(shard: &mut KeyShard, keys: &[&[u8]]) -> Result<(), BenchError> {
    let mut placements = PlacementColumns::default();
    let mut status = Vec::new();
    let batch = PutStart {
        client: 1,
        keys,
        payload_bytes: &[PAYLOAD_BYTES; BATCH][..keys.len()],
        positions: &[],
        batch_keys: 0,
        groups: &[],
        config: &PutConfig::default(),
        upsert: false,
        effort: Effort::Last,
    };
    shard.put_start(0, &batch, &mut placements);
    let locations = placements.locations.iter();
    let generations: Vec<u64> = locations.map(|location| location.generation).collect();
    let puts = StartedPuts { client: 1, keys, generations: &generations, parts: &[] };
    shard.put_end(0, &puts, &[1; BATCH][..keys.len()], &mut status);
    expect("put", status.iter().all(|status| *status == 0))
}

pub(super) fn expect(call: &str, is_right: bool) -> Result<(), BenchError> {
    match is_right {
        true => Ok(()),
        false => Err(BenchError::program("shard", format!("{call} was refused"))),
    }
}

/// Calls with a batch of keys each, once for all keys.
pub(super) fn timed(
    keys: &[&[u8]],
    mut call: impl FnMut(&[&[u8]]) -> Result<(), BenchError>,
) -> Result<Measured, BenchError> {
    let mut measured = Measured::default();
    for batch in keys.chunks(BATCH) {
        let started = Instant::now();
        call(batch)?;
        let took = started.elapsed();
        measured.latency.record(took);
        measured.seconds += took.as_secs_f64();
        measured.operations += 1;
        measured.units += batch.len() as u64;
    }
    measured.samples.push(measured.rate());
    Ok(measured)
}
