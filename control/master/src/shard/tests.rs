//! Facts about a shard, one test each, on a small stage of segments and clients.
//! Invariant: after every step of every test the shard's records agree with each other.

mod admission;
mod adopting;
mod announced_copies;
mod demotion;
mod early_demotion;
mod eviction;
mod fleet;
mod follower;
mod group_shards;
mod groups;
mod hot;
mod inspect;
mod kept_removals;
mod leases;
mod lending;
mod lending_model;
mod model;
mod moving;
mod order;
mod overtaken;
mod packed;
mod parts;
mod placement;
mod puts;
mod puts_beside_disks;
mod quotas;
mod removal;
mod repairs;
mod reports;
mod save;
mod segments;
mod several_disks;
mod tasks;
mod tenants;
mod unconfirmed_disks;
mod unreadable;
mod wanted_replicas;

use std::collections::BTreeMap;
use std::sync::Arc;

use perigee_schemas::Status;
use perigee_schemas::extent::extent_bytes;

use super::*;
use crate::columns::{PlacementColumns, ReplicaColumns, ReplicaLocation};
use crate::draining::{DrainOrder, DrainReport};
use crate::limits::FRESH_MS;
use crate::pattern::Pattern;
use crate::placement::{PutConfig, SoftPin};
use crate::refusal::JobRefusal;
use crate::segment::{SegmentEvent, SegmentSpec};
use crate::settings::{HeatSettings, OffloadSettings};
use crate::shard_task::{TaskAction, TaskRequest, TaskUpdate};
use crate::strategy::Strategy;
use crate::tenant::{TenantLedger, TenantUsage};

/// The client that writes if a test does not say otherwise.
const WRITER: u128 = 7;
/// Payload of an object whose extent is `EXTENT_BYTES` long.
const PAYLOAD_BYTES: u64 = 1000;
const EXTENT_BYTES: u64 = extent_bytes(PAYLOAD_BYTES);
const LEASE_MS: u64 = 100;
const DISCARD_MS: u64 = 1_000;
const RELEASE_MS: u64 = 5_000;

fn settings() -> ShardSettings {
    ShardSettings {
        lease_ttl_ms: LEASE_MS,
        put_discard_timeout_ms: DISCARD_MS,
        put_release_timeout_ms: RELEASE_MS,
        soft_pin_ttl_ms: 10_000,
        watermark_ratio: 1.0,
        eviction_ratio: 1.0,
        ..ShardSettings::default()
    }
}

fn spec(index: u32, bytes: u64) -> SegmentSpec {
    let number = u128::from(index);
    SegmentSpec {
        name: format!("host-{index}:1"),
        host_id: format!("id-{index}"),
        ..SegmentSpec::bare(number + 1, number + 100, bytes)
    }
}

/// A shard, the time, and the columns of the last answers.
struct Stage {
    shard: KeyShard,
    now_ms: u64,
    placements: PlacementColumns,
    replicas: ReplicaColumns,
    status: Vec<i32>,
    /// Generation that names the last put of each key.
    generations: BTreeMap<String, u64>,
    /// Number of parts of each put in parts, by its generation.
    parts: BTreeMap<u64, usize>,
}

impl Stage {
    /// One segment per entry of `objects`, with room for so many objects of the usual size.
    fn new(objects: &[u64]) -> Self {
        Self::with(settings(), objects)
    }

    fn with(settings: ShardSettings, objects: &[u64]) -> Self {
        Self::of(KeyShard::new(settings), objects)
    }

    fn of(shard: KeyShard, objects: &[u64]) -> Self {
        let mut stage = Self {
            shard,
            now_ms: 10_000,
            placements: PlacementColumns::default(),
            replicas: ReplicaColumns::default(),
            status: Vec::new(),
            generations: BTreeMap::new(),
            parts: BTreeMap::new(),
        };
        for (index, objects) in objects.iter().enumerate() {
            stage.mount(spec(index as u32, objects * EXTENT_BYTES), index as u32);
        }
        stage
    }

    fn mount(&mut self, spec: SegmentSpec, index: u32) {
        let event = SegmentEvent::Mounted { index, spec: Arc::new(spec) };
        self.shard.apply(self.now_ms, &event);
        self.shard.check();
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    fn tick(&mut self) {
        self.shard.tick(self.now_ms, 1_000);
        self.shard.check();
    }

    /// Lets everything become old enough for the watermark.
    fn age(&mut self) {
        self.tick();
        self.pass(FRESH_MS);
    }

    fn start_with(&mut self, key: &str, bytes: u64, config: &PutConfig<'_>, upsert: bool) -> i32 {
        self.start_in_group(key, bytes, config, upsert, "", WRITER)
    }

    fn start_in_group(
        &mut self,
        key: &str,
        bytes: u64,
        config: &PutConfig<'_>,
        upsert: bool,
        group: &str,
        client: u128,
    ) -> i32 {
        let batch = PutStart {
            client,
            keys: &[key.as_bytes()],
            payload_bytes: &[bytes],
            positions: &[],
            batch_keys: 0,
            groups: &[group],
            config,
            upsert,
            effort: Effort::Last,
        };
        self.shard.put_start(self.now_ms, &batch, &mut self.placements);
        self.shard.check();
        if let Some(location) = self.placements.locations.first() {
            self.generations.insert(key.to_owned(), location.generation);
            let parts = self.placements.locations.iter().filter_map(|at| at.part).max();
            self.parts.extend(parts.map(|last| (location.generation, usize::from(last) + 1)));
        }
        self.placements.status[0]
    }

    /// Begins puts of the usual size in one call.
    fn start_all(&mut self, keys: &[String]) {
        let names: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let batch = PutStart {
            client: WRITER,
            keys: &names,
            payload_bytes: &vec![PAYLOAD_BYTES; keys.len()],
            positions: &[],
            batch_keys: 0,
            groups: &[],
            config: &PutConfig::default(),
            upsert: false,
            effort: Effort::Last,
        };
        self.shard.put_start(self.now_ms, &batch, &mut self.placements);
        self.shard.check();
        assert_eq!(self.placements.status, vec![0; keys.len()]);
    }

    fn start(&mut self, key: &str) -> i32 {
        self.start_with(key, PAYLOAD_BYTES, &PutConfig::default(), false)
    }

    fn end(&mut self, key: &str) -> i32 {
        self.end_as(WRITER, key, 1)
    }

    fn end_as(&mut self, client: u128, key: &str, checksum: u32) -> i32 {
        let generation = self.generation(key);
        self.end_of(client, key, generation, checksum)
    }

    fn end_of(&mut self, client: u128, key: &str, generation: u64, checksum: u32) -> i32 {
        let parts = vec![checksum; self.parts.get(&generation).copied().unwrap_or_default()];
        let puts = StartedPuts {
            client,
            keys: &[key.as_bytes()],
            generations: &[generation],
            parts: &[&parts],
        };
        self.shard.put_end(self.now_ms, &puts, &[checksum], &mut self.status);
        self.shard.check();
        self.status[0]
    }

    fn revoke(&mut self, client: u128, key: &str) -> i32 {
        let generation = self.generation(key);
        self.revoke_of(client, key, generation, false)
    }

    fn revoke_of(&mut self, client: u128, key: &str, generation: u64, in_flight: bool) -> i32 {
        let puts =
            StartedPuts { client, keys: &[key.as_bytes()], generations: &[generation], parts: &[] };
        self.shard.put_revoke(self.now_ms, &puts, in_flight, &mut self.status);
        self.shard.check();
        self.status[0]
    }

    fn generation(&self, key: &str) -> u64 {
        self.generations.get(key).copied().unwrap_or_default()
    }

    /// A whole put of the usual size; the status of the first phase that fails.
    fn put(&mut self, key: &str) -> i32 {
        self.put_with(key, &PutConfig::default())
    }

    fn put_with(&mut self, key: &str, config: &PutConfig<'_>) -> i32 {
        match self.start_with(key, PAYLOAD_BYTES, config, false) {
            0 => self.end(key),
            status => status,
        }
    }

    fn put_in_group(&mut self, key: &str, group: &str) -> i32 {
        let config = PutConfig::default();
        match self.start_in_group(key, PAYLOAD_BYTES, &config, false, group, WRITER) {
            0 => self.end(key),
            status => status,
        }
    }

    fn exist(&mut self, key: &str) -> i32 {
        self.shard.exist(self.now_ms, &[key.as_bytes()], &mut self.status);
        self.shard.check();
        self.status[0]
    }

    fn get(&mut self, key: &str) -> i32 {
        self.shard.get_replicas(self.now_ms, &[key.as_bytes()], &mut self.replicas);
        self.shard.check();
        self.replicas.status[0]
    }

    /// How many locations a key has, asked without a read lease.
    fn locate_only(&mut self, key: &str) -> usize {
        self.shard.probe_replicas(self.now_ms, &[key.as_bytes()], &mut self.replicas);
        self.shard.check();
        assert_eq!(self.replicas.lease, [0], "no lease to give back");
        self.replicas.locations.len()
    }

    /// What gives the lease back that the last get was granted.
    fn given_back(&self) -> GivenBack {
        GivenBack {
            lease: self.replicas.lease[0],
            generation: self.replicas.locations[0].generation,
        }
    }

    /// Reads a key whole.
    fn read(&mut self, key: &str) -> i32 {
        let status = self.get(key);
        if status == 0 {
            let lease = self.given_back();
            self.shard.give_back(self.now_ms, &[lease]);
            self.shard.check();
        }
        status
    }

    /// Where a key lies, without a lease; empty if it cannot be read.
    fn peek(&self, key: &str) -> Vec<ReplicaLocation> {
        let mut replicas = ReplicaColumns::default();
        self.shard.peek(&[key.as_bytes()], &mut replicas);
        replicas.locations
    }

    fn holds(&self, key: &str) -> bool {
        !self.peek(key).is_empty()
    }

    fn remove_matching(&mut self, pattern: &Pattern, force: bool) -> u64 {
        let mut scan = self.shard.scan();
        let mut removed = 0;
        while !scan.has_ended() {
            let step = self.shard.remove_step(self.now_ms, &mut scan, pattern, force);
            removed += step;
            self.shard.check();
        }
        removed
    }

    fn remove(&mut self, key: &str, force: bool) -> i32 {
        self.shard.remove(self.now_ms, &[key.as_bytes()], force, &mut self.status);
        self.shard.check();
        self.status[0]
    }
}

fn code(status: Status) -> i32 {
    status.code()
}
