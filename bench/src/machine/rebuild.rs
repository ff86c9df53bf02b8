//! What a restart of the master costs: what lies in a segment is found in its journal, and a shard
//! takes it over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use perigee_master::{
    Announcement, Announces, KeyShard, SegmentEvent, SegmentSpec, ShardSettings, limits,
};
use perigee_memory::journal::{Journal, SealedLog, live_records};
use perigee_schemas::Identity;
use perigee_schemas::record::{Record, RecordOp};

use super::Bench;
use crate::error::BenchError;
use crate::load::drive::Measured;
use crate::master::load::key;
use crate::report::RateUnit;

const PAYLOAD_BYTES: u64 = 4000;
const EXTENT_BYTES: u64 = 8192;
/// Records of one message.
const BATCH: usize = 4096;
/// Keys that follow each other lie so far apart in the segment.
const STRIDE: u64 = 7_919;

/// Takes rows of the two halves of a rebuild.
pub(super) fn take(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let keys = bench.settings.integer::<u64>("keys").max(1);
    let journal =
        filled(keys).map_err(|error| BenchError::program("journal", error.to_string()))?;
    let started = Instant::now();
    let live = live_records(journal.records());
    bench.push("journal, find what is live", RateUnit::Keys, &once(started.elapsed(), live.len()));
    let mut messages = Vec::new();
    for records in live.chunks(BATCH) {
        let mut message = Vec::new();
        records.iter().for_each(|record| record.encode(&mut message));
        messages.push(message);
    }
    let mut shard = shard(keys);
    let started = Instant::now();
    let adopted = adopt(&mut shard, &messages)?;
    let took = started.elapsed();
    if adopted as u64 != keys {
        let message = format!("it took {adopted} of {keys} objects");
        return Err(BenchError::program("shard", message));
    }
    bench.push("shard, take over announced", RateUnit::Keys, &once(took, adopted));
    Ok(())
}

/// A journal of so many objects in no order of their places.
fn filled(keys: u64) -> Result<Journal<SealedLog>, Box<dyn std::error::Error>> {
    let mut journal = Journal::create(SealedLog::create((keys as usize * 200).max(1 << 20))?)?;
    for number in 0..keys {
        let key = key(number as usize);
        journal.append(&Record {
            op: RecordOp::Commit,
            flags: 0,
            checksum: 1,
            sequence: number,
            generation: number + 1,
            offset: number * STRIDE % keys * EXTENT_BYTES,
            payload_bytes: PAYLOAD_BYTES,
            client: Identity(1),
            key: key.as_bytes(),
            group: b"",
            part: None,
        })?;
    }
    Ok(journal)
}

/// A shard with a segment that its owner has not announced.
fn shard(keys: u64) -> KeyShard {
    let mut shard = KeyShard::new(ShardSettings::default());
    let spec = SegmentSpec::bare(1, 1, keys * EXTENT_BYTES);
    let spec = Arc::new(SegmentSpec { announces: Announces::Objects, ..spec });
    shard.apply(0, &SegmentEvent::Mounted { index: 0, spec });
    shard
}

/// Takes over all messages, as they come from the wire.
fn adopt(shard: &mut KeyShard, messages: &[Vec<u8>]) -> Result<usize, BenchError> {
    let mut adopted = 0;
    for (at, message) in messages.iter().enumerate() {
        let mut rest = &message[..];
        let mut records = Vec::with_capacity(BATCH);
        while let Ok(record) = Record::decode(rest) {
            rest = &rest[record.encoded_bytes()..];
            records.push(record);
        }
        let is_last = at + 1 == messages.len();
        let announced = Announcement { records: &records, free: &[], removed: &[], is_last };
        adopted += shard
            .announce(limits::AWAITED_MS, 0, &announced)
            .map_err(|status| BenchError::program("shard", status.to_string()))?;
    }
    Ok(adopted)
}

fn once(took: Duration, units: usize) -> Measured {
    let mut measured = Measured::default();
    measured.latency.record(took);
    measured.seconds = took.as_secs_f64();
    measured.operations = 1;
    measured.units = units as u64;
    measured.samples.push(measured.rate());
    measured
}
