//! A pool of segments behind one shard of a master.
//! Invariant: what the shard said was there and leased is there.

use std::sync::Arc;

use perigee_master::{
    Effort, KeyChange, KeyEventQueue, KeyShard, PlacementColumns, PolicyName, PutConfig, PutStart,
    ReplicaColumns, SegmentEvent, SegmentSpec, ShardSettings, StartedPuts, WaitingEvents,
};
use perigee_schemas::extent::extent_bytes;

use crate::error::BenchError;

use super::call_cost::{CallCost, thread_time};
use super::ssd::Ssd;

/// Any size does: a shard counts bytes and looks at none.
const BLOCK_BYTES: u64 = 64 << 10;
/// Milliseconds between two requests.
const REQUEST_MS: u64 = 20;
/// A lease that has ended before the next request.
pub(super) const SHORT_LEASE_MS: u64 = 10;
const WRITER: u128 = 1;
const TICK_BUDGET: usize = 1 << 20;
/// More changes of keys than a request makes.
const EVENTS_MAX: usize = 1 << 24;

pub(super) struct Pool {
    shard: KeyShard,
    now_ms: u64,
    replicas: ReplicaColumns,
    placements: PlacementColumns,
    status: Vec<i32>,
    ssd: Ssd,
    /// What memory evicts, if there is a disk.
    evicted: Option<KeyEventQueue>,
    /// What was taken out of it last.
    left: WaitingEvents,
    pub(super) cost: CallCost,
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
            ssd: Ssd::default(),
            evicted: None,
            left: WaitingEvents::default(),
            cost: CallCost::default(),
        }
    }

    /// Adds a disk for so many blocks.
    pub(super) fn add_ssd(&mut self, blocks: usize) {
        if blocks > 0 {
            let queue = KeyEventQueue::new(EVENTS_MAX, || {});
            self.shard.report_to(queue.clone());
            (self.ssd, self.evicted) = (Ssd::new(blocks), Some(queue));
        }
    }

    /// One prompt: asks which blocks are there, reads the leading run, writes the rest. The blocks
    /// that were read.
    pub(super) fn request(&mut self, blocks: &[u64]) -> Result<usize, BenchError> {
        let names: Vec<String> = blocks.iter().map(|block| format!("block-{block}")).collect();
        let keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let begun = thread_time()?;
        self.shard.exist(self.now_ms, &keys, &mut self.status);
        let in_memory: Vec<bool> = self.status.iter().map(|status| *status == 1).collect();
        let found = names.iter().zip(&in_memory).map(|(name, kept)| *kept || self.ssd.holds(name));
        let run = found.take_while(|found| *found).count();
        let (read, loaded): (Vec<usize>, Vec<usize>) = (0..run).partition(|at| in_memory[*at]);
        let read: Vec<&[u8]> = read.iter().map(|at| keys[*at]).collect();
        self.shard.get_replicas(self.now_ms, &read, &mut self.replicas);
        expect("a get of what is there", &self.replicas.status)?;
        let written: Vec<&[u8]> =
            loaded.into_iter().chain(run..keys.len()).map(|at| keys[at]).collect();
        self.put(&written)?;
        self.now_ms += REQUEST_MS;
        self.shard.tick(self.now_ms, TICK_BUDGET);
        self.cost.requests += thread_time()?.saturating_sub(begun);
        self.demote();
        Ok(run)
    }

    /// Writes what memory has evicted to the disk.
    fn demote(&mut self) {
        let Some(queue) = &self.evicted else {
            return;
        };
        queue.take(&mut self.left);
        debug_assert_eq!(self.left.dropped, 0, "a request evicts less than that");
        for event in self.left.events.iter() {
            if event.change == KeyChange::Removed {
                self.ssd.take(&String::from_utf8_lossy(event.key));
            }
        }
    }

    /// Writes blocks, as a client does: in one batch.
    fn put(&mut self, keys: &[&[u8]]) -> Result<(), BenchError> {
        let payload_bytes = vec![BLOCK_BYTES; keys.len()];
        let batch = PutStart {
            client: WRITER,
            keys,
            payload_bytes: &payload_bytes,
            positions: &[],
            batch_keys: 0,
            groups: &[],
            config: &PutConfig::default(),
            upsert: false,
            effort: Effort::Last,
        };
        let begun = thread_time()?;
        self.shard.put_start(self.now_ms, &batch, &mut self.placements);
        self.cost.put_start += thread_time()?.saturating_sub(begun);
        self.cost.put_keys += keys.len() as u64;
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
