//! A pool of segments behind one shard of a master.
//! Invariant: what the shard said was there and leased is there.

use std::sync::Arc;

use perigee_master::{
    Effort, KeyShard, PlacementColumns, PolicyName, PutConfig, PutStart, ReplicaColumns,
    SegmentEvent, SegmentSpec, ShardSettings, StartedPuts,
};
use perigee_schemas::extent::extent_bytes;

use crate::error::BenchError;

/// Any size does: a shard counts bytes and looks at none.
const BLOCK_BYTES: u64 = 64 << 10;
/// Milliseconds between two requests.
const REQUEST_MS: u64 = 20;
/// A lease that has ended before the next request.
pub(super) const SHORT_LEASE_MS: u64 = 10;
const WRITER: u128 = 1;
const TICK_BUDGET: usize = 1 << 20;

pub(super) struct Pool {
    shard: KeyShard,
    now_ms: u64,
    replicas: ReplicaColumns,
    placements: PlacementColumns,
    status: Vec<i32>,
}

impl Pool {
    /// An empty pool of segments with room for so many blocks each.
    pub(super) fn new(
        policy: PolicyName,
        segments: &[u64],
        lease_ttl_ms: u64,
        watermark_ratio: f64,
    ) -> Self {
        let settings =
            ShardSettings { policy, lease_ttl_ms, watermark_ratio, ..ShardSettings::default() };
        let mut shard = KeyShard::new(settings);
        for (index, blocks) in (0_u32..).zip(segments) {
            let bytes = blocks * extent_bytes(BLOCK_BYTES);
            let name = format!("host-{index}:1");
            let spec = SegmentSpec { name, ..SegmentSpec::bare(u128::from(index) + 1, 1, bytes) };
            shard.apply(0, &SegmentEvent::Mounted { index, spec: Arc::new(spec) });
        }
        Self {
            shard,
            now_ms: 1,
            replicas: ReplicaColumns::default(),
            placements: PlacementColumns::default(),
            status: Vec::new(),
        }
    }

    /// One prompt: asks which blocks are there, reads the leading run, writes the rest. The blocks
    /// that were read.
    pub(super) fn request(&mut self, blocks: &[u64]) -> Result<usize, BenchError> {
        let names: Vec<String> = blocks.iter().map(|block| format!("block-{block}")).collect();
        let keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        self.shard.exist(self.now_ms, &keys, &mut self.status);
        let run = self.status.iter().take_while(|status| **status == 1).count();
        self.shard.get_replicas(self.now_ms, &keys[..run], &mut self.replicas);
        expect("a get of what is there", &self.replicas.status)?;
        self.put(&keys[run..], run)?;
        self.now_ms += REQUEST_MS;
        self.shard.tick(self.now_ms, TICK_BUDGET);
        Ok(run)
    }

    /// Writes blocks that begin at a place of their prompt.
    fn put(&mut self, keys: &[&[u8]], place: usize) -> Result<(), BenchError> {
        let positions: Vec<usize> = (place..).take(keys.len()).collect();
        let payload_bytes = vec![BLOCK_BYTES; keys.len()];
        let batch = PutStart {
            client: WRITER,
            keys,
            payload_bytes: &payload_bytes,
            positions: &positions,
            groups: &[],
            config: &PutConfig::default(),
            upsert: false,
            effort: Effort::Last,
        };
        self.shard.put_start(self.now_ms, &batch, &mut self.placements);
        let started = keys.iter().zip(&self.placements.status).filter(|(_, status)| **status == 0);
        let started: Vec<&[u8]> = started.map(|(key, _)| *key).collect();
        let locations = self.placements.locations.iter();
        let generations: Vec<u64> = locations.map(|location| location.generation).collect();
        let puts =
            StartedPuts { client: WRITER, keys: &started, generations: &generations, parts: &[] };
        self.shard.put_end(self.now_ms, &puts, &vec![0; started.len()], &mut self.status);
        expect("the end of a put", &self.status)
    }
}

fn expect(call: &str, status: &[i32]) -> Result<(), BenchError> {
    match status.iter().all(|status| *status == 0) {
        true => Ok(()),
        false => Err(BenchError::program("shard", format!("{call} was refused"))),
    }
}
