//! The master: the production state machines, asked over links that lose questions and answers.
//! Invariant: a question is carried out at most once, at one moment; whoever asks may not hear of it.

use super::ledger::{Ledger, Version};
use crate::network::HostId;
use crate::random::Random;
use crate::world::World;
use perigee_master::{
    ClientState, Effort, GroupLedger, PlacementColumns, PutConfig, PutStart, Registry,
    RegistrySettings, ReplicaColumns, SegmentSpec, Shard, ShardSettings, StartedPuts, shard_of,
};
use perigee_schemas::{Identity, Status};
use perigee_transfer::{Place, SegmentAddress};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Longest that anybody waits for an answer.
const CALL_DEADLINE: Duration = Duration::from_secs(5);
/// Steps of housekeeping at a time.
const TICK_BUDGET: usize = 50;

struct State {
    registry: Registry,
    shards: Vec<Shard>,
}

/// What a client is told about a key.
pub(super) struct Found {
    pub(super) version: Rc<Version>,
    pub(super) places: Vec<Place>,
    /// Numbers of the segments of the places.
    pub(super) segments: Vec<u32>,
    pub(super) lease_end: Duration,
    /// Which life of the master has said so.
    pub(super) life: u64,
}

pub(super) struct Master {
    world: Rc<World>,
    ledger: Rc<Ledger>,
    random: Random,
    host: HostId,
    lease: Duration,
    life: Cell<u64>,
    /// Segments that were ever mounted.
    mounted: RefCell<BTreeSet<u128>>,
    state: RefCell<State>,
}

impl Master {
    pub(super) fn new(world: &Rc<World>, ledger: &Rc<Ledger>) -> Self {
        let random = world.fork_random();
        let lease = Duration::from_millis(random.between(1_000, 10_000));
        let state = RefCell::new(State::new(&random, lease));
        Self {
            world: world.clone(),
            ledger: ledger.clone(),
            host: world.add_host(),
            lease,
            life: Cell::new(0),
            mounted: RefCell::default(),
            state,
            random,
        }
    }

    pub(super) fn host(&self) -> HostId {
        self.host
    }

    /// A new process that knows nothing.
    pub(super) fn begin_again(&self) {
        self.life.set(self.life.get() + 1);
        *self.state.borrow_mut() = State::new(&self.random, self.lease);
        self.ledger.forgotten();
        self.ledger.note_upheaval();
    }

    /// Segments that take objects.
    pub(super) fn segments(&self) -> usize {
        self.state.borrow().registry.segments().count()
    }

    /// Whether an answer of a life of the master still holds for a segment.
    pub(super) fn is_mounted(&self, life: u64, segment: u32) -> bool {
        life == self.life.get() && self.state.borrow().registry.segment(segment).is_some()
    }

    /// Keys, bytes and unfinished puts.
    pub(super) fn used(&self) -> (u64, u64, u64) {
        let state = self.state.borrow();
        let gauges = state.shards.iter().map(Shard::gauges);
        gauges.fold((0, 0, 0), |(keys, bytes, puts), gauges| {
            let used = gauges.allocated_bytes + gauges.parked_bytes;
            (keys + gauges.keys, bytes + used, puts + gauges.pending_puts)
        })
    }

    /// Housekeeping, if the process can run.
    pub(super) fn tick(&self) {
        if self.world.can_run(self.host) {
            let now_ms = self.now_ms();
            self.state.borrow_mut().tick(now_ms);
        }
    }

    pub(super) fn remove_all(&self) {
        let now_ms = self.now_ms();
        for shard in &mut self.state.borrow_mut().shards {
            let mut scan = shard.scan();
            while !scan.has_ended() {
                shard.remove_step(now_ms, &mut scan, &perigee_master::Pattern::any(), true);
            }
        }
        self.ledger.forgotten();
    }

    /// A sign of life; true if the master does not know the sender.
    pub(super) async fn ping(self: &Rc<Self>, from: HostId, client: u128) -> Option<bool> {
        self.ask(from, move |master| {
            let state = master
                .state
                .borrow_mut()
                .registry
                .ping(master.now_ms(), client);
            state == ClientState::NeedRemount
        })
        .await
    }

    /// Makes a segment known.
    pub(super) async fn mount(self: &Rc<Self>, from: HostId, spec: SegmentSpec) -> Option<bool> {
        self.ask(from, move |master| {
            if !master.mounted.borrow_mut().insert(spec.id) {
                master.ledger.note_upheaval();
            }
            let now_ms = master.now_ms();
            let mut state = master.state.borrow_mut();
            let client = spec.client;
            let mounted = state.registry.remount(now_ms, client, [spec]);
            state.apply_events(now_ms);
            mounted.is_ok_and(|mounted| mounted.iter().all(Result::is_ok))
        })
        .await
    }

    /// Asks for places; the status says why there are none.
    pub(super) async fn put_start(
        self: &Rc<Self>,
        from: HostId,
        (client, key, bytes): (u128, String, u64),
        (replicas, upsert): (u32, bool),
    ) -> Option<(i32, Vec<Place>)> {
        self.ask(from, move |master| {
            let now_ms = master.now_ms();
            let mut state = master.state.borrow_mut();
            let mut out = PlacementColumns::default();
            let config = PutConfig {
                replica_num: replicas,
                ..PutConfig::default()
            };
            let batch = PutStart {
                client,
                keys: &[key.as_bytes()],
                payload_bytes: &[bytes],
                groups: &[group_of(&key)],
                config: &config,
                upsert,
                effort: Effort::Last,
            };
            state.shard(&key).put_start(now_ms, &batch, &mut out);
            let places = out.locations.iter().filter_map(|location| {
                state.place(
                    location.segment,
                    location.offset,
                    bytes,
                    location.generation,
                )
            });
            (out.status[0], places.collect())
        })
        .await
    }

    /// Makes a put visible.
    pub(super) async fn put_end(
        self: &Rc<Self>,
        from: HostId,
        (client, key, generation): (u128, String, u64),
        version: Rc<Version>,
    ) -> Option<i32> {
        self.ask(from, move |master| {
            let puts = StartedPuts {
                client,
                keys: &[key.as_bytes()],
                generations: &[generation],
            };
            let mut out = Vec::new();
            let sums = [version.checksum];
            let now_ms = master.now_ms();
            master
                .state
                .borrow_mut()
                .shard(&key)
                .put_end(now_ms, &puts, &sums, &mut out);
            if out[0] == 0 {
                master.ledger.ended(&key, &version);
            }
            out[0]
        })
        .await
    }

    /// Takes a put back.
    pub(super) async fn put_revoke(
        self: &Rc<Self>,
        from: HostId,
        (client, key, generation): (u128, String, u64),
        in_flight: bool,
    ) -> Option<i32> {
        self.ask(from, move |master| {
            let puts = StartedPuts {
                client,
                keys: &[key.as_bytes()],
                generations: &[generation],
            };
            let mut out = Vec::new();
            let now_ms = master.now_ms();
            let mut state = master.state.borrow_mut();
            state
                .shard(&key)
                .put_revoke(now_ms, &puts, in_flight, &mut out);
            out[0]
        })
        .await
    }

    /// Looks a key up: the version it must be and where it lies; `Some(None)` if it is not there.
    pub(super) async fn get(self: &Rc<Self>, from: HostId, key: String) -> Option<Option<Found>> {
        self.ask(from, move |master| {
            let now_ms = master.now_ms();
            let mut state = master.state.borrow_mut();
            let mut out = ReplicaColumns::default();
            state
                .shard(&key)
                .get_replicas(now_ms, &[key.as_bytes()], &mut out);
            if out.status[0] != 0 {
                return None;
            }
            let version = master.ledger.found(&key, out.checksum[0])?;
            let places = out.locations.iter().filter_map(|location| {
                let bytes = location.payload_bytes;
                state.place(
                    location.segment,
                    location.offset,
                    bytes,
                    location.generation,
                )
            });
            Some(Found {
                version,
                places: places.collect(),
                segments: out
                    .locations
                    .iter()
                    .map(|location| location.segment)
                    .collect(),
                lease_end: Duration::from_millis(now_ms) + master.lease,
                life: master.life.get(),
            })
        })
        .await
    }

    /// Removes a key; unless forced, only if nobody has a lease on it.
    pub(super) async fn remove(
        self: &Rc<Self>,
        from: HostId,
        key: String,
        force: bool,
    ) -> Option<Status> {
        self.ask(from, move |master| {
            let mut out = Vec::new();
            let now_ms = master.now_ms();
            let mut state = master.state.borrow_mut();
            state
                .shard(&key)
                .remove(now_ms, &[key.as_bytes()], force, &mut out);
            if out[0] == 0 {
                master.ledger.removed(&key);
            }
            Status::from_peer(out[0])
        })
        .await
    }

    fn now_ms(&self) -> u64 {
        self.world.now().as_millis() as u64
    }

    /// Carries a question to the master and its answer back. `None` if it did not come in time, carried out or not.
    async fn ask<T: 'static>(
        self: &Rc<Self>,
        from: HostId,
        work: impl FnOnce(&Self) -> T + 'static,
    ) -> Option<T> {
        let answer = Rc::new(RefCell::new(None));
        let (master, told, life) = (self.clone(), answer.clone(), self.life.get());
        let world = self.world.clone();
        self.world.direct(async move {
            let to = master.host;
            world.sleep(world.latency()).await;
            if !world.can_pass(from, to) {
                return;
            }
            let (waiting, present) = (world.clone(), master.clone());
            world
                .until(move || waiting.can_run(to) || present.life.get() != life)
                .await;
            if master.life.get() != life {
                return;
            }
            let found = work(&master);
            world.sleep(world.latency()).await;
            if world.can_pass(to, from) {
                *told.borrow_mut() = Some(found);
            }
        });
        let watched = answer.clone();
        self.world
            .until_at_most(CALL_DEADLINE, move || watched.borrow().is_some())
            .await;
        answer.take()
    }
}

/// Every other key is in a group, whose members are on all shards.
fn group_of(key: &str) -> &'static str {
    match key.bytes().last() {
        Some(last) if last % 2 == 1 => "odd",
        _ => "",
    }
}

impl State {
    fn new(random: &Random, lease: Duration) -> Self {
        let count = random.between(1, 2) as usize;
        let settings = |index| ShardSettings {
            index,
            count,
            lease_ttl_ms: lease.as_millis() as u64,
            seed: random.next() | 1,
            generation_base: (random.next() >> 8) | 1,
            ..ShardSettings::default()
        };
        let groups = GroupLedger::new(count);
        Self {
            registry: Registry::new(RegistrySettings::default()),
            shards: (0..count)
                .map(|index| Shard::sharing(settings(index), &groups))
                .collect(),
        }
    }

    fn shard(&mut self, key: &str) -> &mut Shard {
        let count = self.shards.len();
        &mut self.shards[shard_of(key.as_bytes(), count)]
    }

    fn tick(&mut self, now_ms: u64) {
        self.registry.tick(now_ms);
        self.apply_events(now_ms);
        for shard in &mut self.shards {
            shard.tick(now_ms, TICK_BUDGET);
        }
    }

    fn apply_events(&mut self, now_ms: u64) {
        for event in self.registry.take_events() {
            self.shards
                .iter_mut()
                .for_each(|shard| shard.apply(now_ms, &event));
        }
    }

    fn place(&self, segment: u32, offset: u64, bytes: u64, generation: u64) -> Option<Place> {
        let spec = self.registry.segment(segment)?.spec;
        let address = SegmentAddress {
            id: Identity(spec.id),
            bytes: spec.bytes,
            endpoint: spec.endpoint.clone(),
            host_id: spec.host_id.clone(),
            rendezvous: String::new(),
        };
        Some(Place {
            segment: Arc::new(address),
            offset,
            payload_bytes: bytes,
            generation,
        })
    }
}
