//! Random sequences of calls and time steps against a model of what readers and writers may rely
//! on. Invariants checked: no reader's and no writer's bytes are ever handed out, whatever happens
//! in between; after each acknowledged put its bytes can be read, or those of one that began later,
//! and a key never goes back to older bytes.

use std::collections::BTreeMap;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

mod demotions;
mod disk;
mod moves;

use disk::{DISK, Disk, Logged, OWNER, SEGMENT_COPIES};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::{DiskHealth, TenantId};

use crate::key::hash_key;
use crate::settings::HeatSettings;

use super::{
    AnnouncedCopy, DrainOrder, EXTENT_BYTES, EndedDemotions, EndedMoves, GivenBack, KeyShard,
    LEASE_MS, MoveTask, OffloadSettings, PAYLOAD_BYTES, Pattern, PutConfig, RELEASE_MS,
    ReplicaLocation, SegmentEvent, ShardSettings, SoftPin, Stage, Status, TenantLedger, WRITER,
    code, extent_bytes, follower::Follower, quotas, reports::Consumer, settings, spec,
};

const KEYS: usize = 6;
/// Key n belongs to tenant n modulo their number.
const TENANTS: [&str; 3] = ["default", "red", "blue"];

#[derive(Debug, Clone)]
enum Op {
    Put {
        key: usize,
        size: u64,
        replicas: u32,
        upsert: bool,
        hard: bool,
        soft: bool,
        group: bool,
    },
    End(usize),
    Revoke(usize),
    Late {
        end: bool,
    },
    Exist(usize),
    Get(usize),
    GiveBack(usize),
    Remove {
        key: usize,
        force: bool,
    },
    Pass(u64),
    Tick(usize),
    Unmount,
    Drain,
    Turn(u32),
    Take,
    Report {
        good: bool,
        in_flight: bool,
    },
    /// Owners of disks take what is to be written there.
    Demote,
    /// The first of these is over.
    Written {
        good: bool,
    },
    /// Owners erase what is void from their logs.
    Erase,
    /// The log of the disk goes on without its oldest segment.
    Recycle,
    /// The owner says that the disk is well or not.
    Health(usize),
    /// The owner of the disk is gone; it may come back with what its log has.
    Eject,
    Return,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..KEYS;
    // The larger ones fit into no segment: they are put in parts.
    let size = prop_oneof![6 => 1_u64..4, 1 => 15_u64..20];
    let pick = (0..KEYS, size, 1_u32..3, any::<bool>(), 0..10, 0..4, 0..3);
    prop_oneof![
        6 => pick.prop_map(|(key, size, replicas, upsert, hard, soft, group)| Op::Put {
            key, size, replicas, upsert, hard: hard == 0, soft: soft == 0, group: group == 0,
        }),
        6 => key.clone().prop_map(Op::End),
        1 => key.clone().prop_map(Op::Revoke),
        2 => any::<bool>().prop_map(|end| Op::Late { end }),
        2 => key.clone().prop_map(Op::Exist),
        4 => key.clone().prop_map(Op::Get),
        4 => (0_usize..8).prop_map(Op::GiveBack),
        2 => (key, any::<bool>()).prop_map(|(key, force)| Op::Remove { key, force }),
        3 => prop_oneof![1_u64..60, 100_u64..1_500, Just(6_000)].prop_map(Op::Pass),
        2 => (0_usize..5).prop_map(Op::Tick),
        1 => prop_oneof![3 => Just(Op::Tick(100)), 1 => Just(Op::Unmount), 1 => Just(Op::Drain)],
        3 => (0_u32..4).prop_map(Op::Turn),
        3 => Just(Op::Take),
        3 => (0..4, any::<bool>())
            .prop_map(|(good, in_flight)| Op::Report { good: good > 0, in_flight }),
        4 => Just(Op::Demote),
        5 => (0..5).prop_map(|good| Op::Written { good: good > 0 }),
        2 => prop_oneof![3 => Just(Op::Erase), 1 => Just(Op::Recycle)],
        2 => prop_oneof![1 => Just(Op::Eject), 2 => Just(Op::Return)],
        1 => prop_oneof![2 => Just(0), 1 => 1_usize..4].prop_map(Op::Health),
    ]
}

/// Bytes that a client relies on until a time.
#[derive(Debug, Clone, Copy)]
struct Claim {
    segment: u32,
    start: u64,
    end: u64,
    until_ms: u64,
}

impl Claim {
    fn new(location: &ReplicaLocation, until_ms: u64) -> Self {
        let end = location.offset + extent_bytes(location.payload_bytes);
        Self { segment: location.segment, start: location.offset, end, until_ms }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.segment == other.segment && self.start < other.end && other.start < self.end
    }
}

/// A read lease that its reader has not given back.
struct Reading {
    key: usize,
    claims: Vec<Claim>,
    lease: GivenBack,
}

/// A put that its writer has neither ended nor revoked.
struct Writing {
    claims: Vec<Claim>,
    generations: Vec<u64>,
    /// Counts the puts in the order in which they began.
    checksum: u32,
}

struct Model {
    stage: Stage,
    readers: Vec<Reading>,
    /// By key and generation. Some were given up by the shard and their writers may not have
    /// noticed.
    writing: BTreeMap<(usize, u64), Writing>,
    /// Space of moves whose carriers never tell that they have stopped.
    stray: Vec<Claim>,
    /// Checksum of the last put of each key that was acknowledged...
    newest: BTreeMap<usize, u32>,
    /// ... if the key was not removed since.
    acknowledged: BTreeMap<usize, u32>,
    /// Checksum of each generation that was completed.
    completed: BTreeMap<u64, u32>,
    /// Until when each key's current version is leased.
    leased_until_ms: BTreeMap<usize, u64>,
    puts: u32,
    next_segment: u32,
    /// Copies that clients are writing or have not reported as ended.
    copying: Vec<Copying>,
    /// Copies for repairs after the last turn.
    repairs: u32,
    consumer: Consumer,
    follower: Follower,
    disk: Disk,
    quotas: TenantLedger,
    /// The last put was begun.
    started: bool,
}

/// A move that its carrier has taken.
struct Copying {
    task: MoveTask,
    claim: Claim,
    /// Its source stays.
    is_repair: bool,
}

fn tenant(key: usize) -> TenantId {
    TenantId::parse(TENANTS[key % TENANTS.len()]).expect("a name of a tenant")
}

fn name(key: usize) -> String {
    tenant(key).stored(&format!("key-{key}")).into_owned()
}

impl Model {
    fn new(offload: Option<OffloadSettings>) -> Self {
        Self::with_quotas(offload, &[])
    }

    /// The tenants have quotas of so many bytes each; all that fits if there are none.
    fn with_quotas(offload: Option<OffloadSettings>, quotas: &[u64]) -> Self {
        let heat =
            HeatSettings { enforce: true, window_ms: 1_000, reads_needed: 2, replicas_max: 2 };
        let settings =
            ShardSettings { watermark_ratio: 0.7, offload, heat: Some(heat), ..settings() };
        let ledger = TenantLedger::new(settings.watermark_ratio);
        let mut shard = KeyShard::new(settings);
        if !quotas.is_empty() {
            shard.charge_to(&ledger);
        }
        for (tenant, bytes) in TENANTS.iter().zip(quotas) {
            ledger.set_quota(tenant, *bytes).expect("a quota of something");
        }
        let mut stage = Stage::of(shard, &[5, 7]);
        stage.mount(Disk::spec(), DISK);
        Self {
            quotas: ledger,
            started: false,
            disk: Disk::new(),
            consumer: Consumer::of(&mut stage.shard),
            follower: Follower::default(),
            stage,
            readers: Vec::new(),
            writing: BTreeMap::new(),
            stray: Vec::new(),
            newest: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            completed: BTreeMap::new(),
            leased_until_ms: BTreeMap::new(),
            puts: 0,
            next_segment: 2,
            copying: Vec::new(),
            repairs: 0,
        }
    }

    fn apply(&mut self, op: &Op) {
        let before = self.quotas.usages();
        self.play(op);
        self.stage.shard.check();
        self.assert_listed();
        self.consumer.catch_up(&self.stage.shard);
        self.follower.catch_up(&mut self.stage.shard);
        let (writer, started) = match *op {
            Op::Put { key, .. } => (Some(tenant(key)), self.started),
            _ => (None, false),
        };
        quotas::check(&before, &self.quotas, writer.as_ref(), started);
    }

    fn play(&mut self, op: &Op) {
        match *op {
            Op::Put { .. } => self.put(op),
            Op::End(key) => self.end(key, self.stage.generation(&name(key))),
            Op::Revoke(key) => self.revoke(key, self.stage.generation(&name(key))),
            Op::Late { end } => self.report_late(end),
            Op::Exist(key) => {
                if self.stage.exist(&name(key)) == 1 {
                    self.lease(key);
                }
            }
            Op::Get(key) => self.get(key),
            Op::GiveBack(at) => self.give_back(at),
            Op::Remove { key, force } => self.remove(key, force),
            Op::Pass(ms) => self.stage.pass(ms),
            Op::Tick(budget) => {
                self.stage.shard.tick(self.stage.now_ms, budget);
            }
            Op::Unmount => self.replace_segment(),
            Op::Drain => {
                let index = self.next_segment - 1;
                self.stage.shard.apply(self.stage.now_ms, &SegmentEvent::Draining { index });
            }
            Op::Turn(allowance) => self.turn(allowance),
            Op::Take => self.take(),
            Op::Report { good, in_flight } => self.report(good, in_flight),
            Op::Demote => self.demote(),
            Op::Written { good } => self.written(good),
            Op::Erase => self.erase(),
            Op::Recycle => self.recycle(),
            Op::Health(health) => self.say_health(DiskHealth::ALL[health]),
            Op::Eject => self.eject(),
            Op::Return => self.bring_back(),
        }
    }

    /// A listing has exactly the keys that can be read.
    fn assert_listed(&self) {
        let (shard, mut listed) = (&self.stage.shard, BTreeMap::new());
        let mut scan = shard.scan();
        while !scan.has_ended() {
            shard.list_step(&mut scan, &Pattern::any(), |it| {
                let known = listed.insert(it.key.to_vec(), it.payload_bytes);
                assert!(known.is_none(), "no key is listed twice");
                true
            });
        }
        let readable = (0..KEYS).map(name).filter(|key| self.stage.holds(key));
        let sizes: BTreeMap<Vec<u8>, u64> = readable
            .map(|key| {
                let bytes = shard.size(key.as_bytes()).unwrap();
                (key.into_bytes(), bytes)
            })
            .collect();
        assert_eq!(sizes, listed);
    }

    fn lease(&mut self, key: usize) {
        self.leased_until_ms.insert(key, self.stage.now_ms + LEASE_MS);
    }

    fn put(&mut self, op: &Op) {
        let Op::Put { key, size, replicas, upsert, hard, soft, group } = *op else {
            return;
        };
        let soft_pin = if soft { SoftPin::Enable { ttl_ms: Some(700) } } else { SoftPin::Preserve };
        let config = PutConfig {
            replica_num: replicas,
            hard_pin: hard,
            soft_pin,
            parts: true,
            ..PutConfig::default()
        };
        let before = self.stage.holds(&name(key));
        let group = if group { tenant(key).stored("group") } else { "".into() };
        let bytes = size * PAYLOAD_BYTES / 2;
        let status = self.stage.start_in_group(&name(key), bytes, &config, upsert, &group, WRITER);
        if before && !upsert {
            assert_eq!(status, code(Status::ObjectAlreadyExists));
        }
        self.started = status == 0;
        if !self.started {
            return;
        }
        let until_ms = self.stage.now_ms + RELEASE_MS;
        let locations = &self.stage.placements.locations;
        let claims: Vec<Claim> = locations.iter().map(|at| Claim::new(at, until_ms)).collect();
        let generations: Vec<u64> = locations.iter().map(|at| at.generation).collect();
        self.assert_unclaimed(&claims);
        self.puts += 1;
        self.writing
            .insert((key, generations[0]), Writing { claims, generations, checksum: self.puts });
    }

    fn assert_unclaimed(&self, claims: &[Claim]) {
        let writers = self.writing.values().flat_map(|writing| &writing.claims);
        let copies = self.copying.iter().map(|copying| &copying.claim);
        let readers = self.readers.iter().flat_map(|reading| &reading.claims);
        let running = readers.chain(&self.stray).chain(writers).chain(copies);
        for claim in running.filter(|claim| claim.until_ms > self.stage.now_ms) {
            assert!(claims.iter().all(|new| !new.overlaps(claim)), "{claim:?} was handed out");
        }
    }

    /// Ended or not, the writer has stopped afterwards.
    fn end(&mut self, key: usize, generation: u64) {
        let Some(writing) = self.writing.remove(&(key, generation)) else {
            return;
        };
        let before = self.stage.peek(&name(key));
        let status = self.stage.end_of(WRITER, &name(key), generation, writing.checksum);
        let after = self.stage.peek(&name(key));
        if status == 0 {
            assert!(
                writing.generations.contains(&after[0].generation),
                "key {key} is what was acknowledged"
            );
            self.completed.extend(writing.generations.iter().map(|at| (*at, writing.checksum)));
            self.leased_until_ms.remove(&key);
            let last = self.newest.insert(key, writing.checksum);
            assert!(last < Some(writing.checksum), "key {key} went back");
            self.acknowledged.insert(key, writing.checksum);
        } else {
            assert_eq!(after, before, "a put that fails changes no key");
        }
        if status == code(Status::ObjectAlreadyExists) {
            assert!(self.newest[&key] > writing.checksum, "key {key} has no later put");
        }
    }

    fn revoke(&mut self, key: usize, generation: u64) {
        let before = self.stage.peek(&name(key));
        self.stage.revoke_of(WRITER, &name(key), generation, false);
        assert_eq!(self.stage.peek(&name(key)), before);
        self.writing.remove(&(key, generation));
    }

    /// The writer that began first of all ends or revokes its put.
    fn report_late(&mut self, end: bool) {
        let first = self.writing.iter().min_by_key(|(_, writing)| writing.checksum);
        let Some((&(key, generation), _)) = first else {
            return;
        };
        if end {
            self.end(key, generation);
        } else {
            self.revoke(key, generation);
        }
    }

    fn get(&mut self, key: usize) {
        if self.stage.get(&name(key)) != 0 {
            return;
        }
        let checksum = self.stage.replicas.checksum[0];
        assert_eq!(self.acknowledged.get(&key), Some(&checksum), "key {key}");
        let mut parts = BTreeMap::new();
        for location in &self.stage.replicas.locations {
            assert_eq!(self.completed.get(&location.generation), Some(&checksum), "key {key}");
            parts.insert(location.part, location.payload_bytes);
        }
        let bytes: u64 = parts.into_values().sum();
        assert_eq!(self.stage.replicas.payload_bytes, [bytes], "all of key {key}");
        self.assert_on_disk(key);
        let until_ms = self.stage.now_ms + LEASE_MS;
        let locations = self.stage.replicas.locations.iter();
        let in_memory = locations.filter(|at| at.segment < DISK);
        self.readers.push(Reading {
            key,
            claims: in_memory.map(|at| Claim::new(at, until_ms)).collect(),
            lease: self.stage.given_back(),
        });
        self.lease(key);
    }

    /// A reader has finished, possibly after its lease has ended.
    fn give_back(&mut self, at: usize) {
        if at >= self.readers.len() {
            return;
        }
        let Reading { key, lease, .. } = self.readers.remove(at);
        self.stage.shard.give_back(self.stage.now_ms, &[lease]);
        self.leased_until_ms.remove(&key);
    }

    fn remove(&mut self, key: usize, force: bool) {
        let leased = self.leased_until_ms.get(&key).is_some_and(|end| *end > self.stage.now_ms);
        let held = self.stage.holds(&name(key));
        let status = self.stage.remove(&name(key), force);
        if held && leased && !force {
            assert_ne!(status, 0, "key {key} is leased");
        }
        if status == 0 {
            assert!(held && !self.stage.holds(&name(key)));
            self.leased_until_ms.remove(&key);
            self.acknowledged.remove(&key);
        }
    }

    fn replace_segment(&mut self) {
        let now_ms = self.stage.now_ms;
        let index = self.next_segment - 1;
        self.stage.shard.apply(now_ms, &SegmentEvent::Unmounted { index });
        self.stage.mount(spec(self.next_segment, 7 * EXTENT_BYTES), self.next_segment);
        self.next_segment += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bytes_in_use_are_never_handed_out(ops in prop::collection::vec(op(), 1..120)) {
        let mut model = Model::new(None);
        for op in &ops {
            model.apply(op);
        }
    }

    #[test]
    fn what_is_on_a_disk_is_never_older_than_acknowledged(
        ops in prop::collection::vec(op(), 1..150),
        on_evict in any::<bool>(),
        force_evict in any::<bool>(),
        queue_limit in 1_usize..6,
        writes_per_day in prop_oneof![Just(0.0), 0.0..8.0],
    ) {
        let drive_writes_per_day = writes_per_day * EXTENT_BYTES as f64 / Disk::spec().bytes as f64;
        let offload = OffloadSettings {
            on_evict, force_evict, queue_limit, cap_ratio: 0.8, drive_writes_per_day,
        };
        let mut model = Model::new(Some(offload));
        for op in &ops {
            model.apply(op);
        }
    }

    #[test]
    fn no_tenant_exceeds_its_quota_or_takes_what_is_guaranteed_to_another(
        ops in prop::collection::vec(op(), 1..150),
        quotas in prop::collection::vec(1_u64..8, TENANTS.len()),
        offload in any::<bool>(),
        force_evict in any::<bool>(),
    ) {
        let quotas: Vec<u64> = quotas.iter().map(|objects| objects * EXTENT_BYTES).collect();
        let offload = offload.then_some(OffloadSettings {
            on_evict: true, force_evict, queue_limit: 4, cap_ratio: 0.8, drive_writes_per_day: 0.0,
        });
        let mut model = Model::with_quotas(offload, &quotas);
        for op in &ops {
            model.apply(op);
        }
    }
}
