//! Facts about groups whose members are on several shards: one lease, evicted together, as on one
//! shard. Invariant checked: once every shard has done something, a group is on all of its shards
//! or on none.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::{ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use super::*;
use crate::key::shard_of;

const SHARDS: usize = 3;
/// Objects that a shard has room for.
const ROOM: usize = 8;

struct Fleet {
    stages: Vec<Stage>,
}

impl Fleet {
    fn new() -> Self {
        let ledger = GroupLedger::new(SHARDS);
        let stage = |index| {
            let settings = ShardSettings { index, count: SHARDS, ..settings() };
            let mut stage = Stage::of(KeyShard::sharing(settings, &ledger), &[]);
            let part_bytes = (ROOM as u64 * EXTENT_BYTES).next_multiple_of(4096);
            stage.mount(spec(0, SHARDS as u64 * part_bytes), 0);
            stage
        };
        let stages = (0..SHARDS).map(stage).collect();
        Self { stages }
    }

    fn owner(&mut self, key: &str) -> &mut Stage {
        &mut self.stages[shard_of(key.as_bytes(), SHARDS)]
    }

    fn put(&mut self, key: &str, group: &str) -> i32 {
        self.owner(key).put_in_group(key, group)
    }

    fn pass(&mut self, ms: u64) {
        self.stages.iter_mut().for_each(|stage| stage.pass(ms));
    }

    /// Puts without a group on one shard until `puts` of them were tried; how many were stored.
    fn press(&mut self, shard: usize, puts: usize, salt: u64) -> usize {
        let name = format!("press-{salt}");
        let stored =
            keys_of(shard, &name).take(puts).filter(|key| self.stages[shard].put(key) == 0);
        stored.count()
    }

    /// Which of these keys are there, once every shard has done something.
    fn present(&mut self, keys: &[String]) -> BTreeSet<String> {
        self.stages.iter_mut().for_each(Stage::tick);
        let keys = keys.iter().filter(|key| self.owner(key).holds(key));
        keys.cloned().collect()
    }
}

/// Keys of one shard.
fn keys_of(shard: usize, name: &str) -> impl Iterator<Item = String> {
    let keys = (0..).map(move |number| format!("{name}-{number}"));
    keys.filter(move |key| shard_of(key.as_bytes(), SHARDS) == shard)
}

/// A fleet with the group "g", which has one member on each shard; the members in order of shards.
fn grouped() -> (Fleet, Vec<String>) {
    let mut fleet = Fleet::new();
    let member = |shard| keys_of(shard, "member").next().expect("there are plenty");
    let members: Vec<String> = (0..SHARDS).map(member).collect();
    for key in &members {
        assert_eq!(fleet.put(key, "g"), 0);
    }
    (fleet, members)
}

#[test]
fn a_lease_on_one_shard_protects_the_members_on_the_others_from_removal() {
    let (mut fleet, members) = grouped();
    assert_eq!(fleet.stages[0].get(&members[0]), 0);
    for (stage, key) in fleet.stages.iter_mut().zip(&members) {
        assert_eq!(stage.remove(key, false), code(Status::ObjectHasLease));
    }
    fleet.pass(LEASE_MS);
    assert_eq!(fleet.stages[2].remove(&members[2], false), 0);
}

#[test]
fn a_lease_on_one_shard_protects_the_members_on_the_others_from_eviction() {
    let (mut fleet, members) = grouped();
    assert_eq!(fleet.stages[0].get(&members[0]), 0);
    fleet.press(1, 3 * ROOM, 0);
    assert_eq!(fleet.present(&members).len(), SHARDS);
    fleet.pass(LEASE_MS);
    fleet.press(1, 3 * ROOM, 1);
    assert_eq!(fleet.present(&members).len(), 0);
}

#[test]
fn a_lease_that_is_given_back_on_one_shard_frees_the_members_on_the_others() {
    let (mut fleet, members) = grouped();
    assert_eq!(fleet.stages[0].get(&members[0]), 0);
    let first = fleet.stages[0].given_back();
    assert_eq!(fleet.stages[1].get(&members[1]), 0);
    let second = fleet.stages[1].given_back();
    let now_ms = fleet.stages[0].now_ms;
    fleet.stages[0].shard.give_back(now_ms, &[first]);
    let remove = fleet.stages[2].remove(&members[2], false);
    assert_eq!(remove, code(Status::ObjectHasLease));
    fleet.stages[1].shard.give_back(now_ms, &[second]);
    let puts = 16 * ROOM;
    assert_eq!(fleet.press(2, puts, 0), puts);
    assert_eq!(fleet.present(&members).len(), 0);
}

#[test]
fn pressure_on_one_shard_evicts_the_group_on_all() {
    let (mut fleet, members) = grouped();
    assert!(fleet.press(1, 2 * ROOM, 0) == 2 * ROOM);
    assert_eq!(fleet.stages[0].exist(&members[0]), 0);
    assert_eq!(fleet.stages[2].get(&members[2]), code(Status::ObjectNotFound));
    for stage in &fleet.stages {
        stage.shard.check();
    }
}

#[test]
fn an_unfinished_member_on_another_shard_keeps_the_group() {
    let (mut fleet, members) = grouped();
    let late = keys_of(2, "late").next().expect("there are plenty");
    let config = PutConfig::default();
    let started = fleet.stages[2].start_in_group(&late, PAYLOAD_BYTES, &config, false, "g", WRITER);
    assert_eq!(started, 0);
    fleet.press(1, 3 * ROOM, 0);
    assert_eq!(fleet.present(&members).len(), SHARDS);
    assert_eq!(fleet.stages[2].end(&late), 0);
    assert_eq!(fleet.press(1, 3 * ROOM, 1), 3 * ROOM);
    assert_eq!(fleet.present(&members).len(), 0);
}

#[test]
fn a_put_finds_room_as_soon_as_members_elsewhere_let_the_group_go() {
    let mut fleet = Fleet::new();
    let here: Vec<String> = keys_of(1, "here").take(2 * ROOM).collect();
    let there = keys_of(2, "there").next().expect("there are plenty");
    let pinned = PutConfig { hard_pin: true, ..PutConfig::default() };
    fleet.stages[2].start_in_group(&there, PAYLOAD_BYTES, &pinned, false, "g", WRITER);
    assert_eq!(fleet.stages[2].end(&there), 0);
    let stored = here.iter().take_while(|key| fleet.put(key, "g") == 0);
    assert!(stored.count() >= ROOM);
    assert_eq!(fleet.press(1, 1, 0), 0, "the pinned member keeps all");
    assert_eq!(fleet.stages[2].remove(&there, true), 0);
    assert_eq!(fleet.press(1, 1, 0), 1);
}

#[test]
fn a_soft_pin_on_one_shard_makes_the_group_go_last_on_the_others() {
    let (mut fleet, members) = grouped();
    let late = keys_of(2, "late").next().expect("there are plenty");
    let pinned =
        PutConfig { soft_pin: SoftPin::Enable { ttl_ms: Some(500) }, ..PutConfig::default() };
    fleet.stages[2].start_in_group(&late, PAYLOAD_BYTES, &pinned, false, "g", WRITER);
    assert_eq!(fleet.stages[2].end(&late), 0);
    assert_eq!(fleet.press(1, 3 * ROOM, 0), 3 * ROOM);
    assert_eq!(fleet.present(&members).len(), SHARDS);
    fleet.pass(500);
    fleet.stages[2].tick();
    assert_eq!(fleet.press(2, 3 * ROOM, 1), 3 * ROOM);
    assert_eq!(fleet.present(&members).len(), 0);
}

#[test]
fn a_member_that_is_being_replaced_while_its_group_is_evicted_stays_writable() {
    let (mut fleet, members) = grouped();
    let config = PutConfig::default();
    let started =
        fleet.stages[2].start_in_group(&members[2], PAYLOAD_BYTES, &config, true, "g", WRITER);
    assert_eq!(started, 0);
    assert_eq!(fleet.press(1, 2 * ROOM, 0), 2 * ROOM);
    assert_eq!(fleet.present(&members).len(), 0);
    assert_eq!(fleet.stages[2].end(&members[2]), 0);
    assert_eq!(fleet.put(&members[0], "g"), 0);
    assert_eq!(fleet.stages[0].get(&members[0]), 0);
    let remove = fleet.stages[2].remove(&members[2], false);
    assert_eq!(remove, code(Status::ObjectHasLease), "it is one group again");
}

#[test]
fn a_group_that_comes_back_has_nothing_of_the_evicted_one() {
    let (mut fleet, members) = grouped();
    fleet.press(1, 2 * ROOM, 0);
    for key in members.iter().rev() {
        assert_eq!(fleet.put(key, "g"), 0);
    }
    assert_eq!(fleet.present(&members).len(), SHARDS);
    assert_eq!(fleet.stages[1].remove(&members[1], false), 0);
}

#[derive(Debug, Clone)]
enum Op {
    Put(usize),
    Get(usize),
    GiveBack(usize),
    Probe(usize),
    Remove(usize, bool),
    Press(usize, usize),
    Pass(u64),
    Tick(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..KEYS).prop_map(Op::Put),
        3 => (0..KEYS).prop_map(Op::Get),
        2 => (0_usize..4).prop_map(Op::GiveBack),
        1 => (0..KEYS).prop_map(Op::Probe),
        1 => (0..KEYS, any::<bool>()).prop_map(|(key, force)| Op::Remove(key, force)),
        3 => (0..SHARDS, 1_usize..ROOM).prop_map(|(shard, puts)| Op::Press(shard, puts)),
        2 => (1_u64..LEASE_MS).prop_map(Op::Pass),
        1 => (0..SHARDS).prop_map(Op::Tick),
    ]
}

const KEYS: usize = 10;
const GROUPS: usize = 2;

/// What must be there of one group.
#[derive(Default)]
struct Expected {
    members: BTreeSet<String>,
    probe_end_ms: u64,
    /// Readers of members that have not given their leases back.
    readings: Vec<Reading>,
}

struct Reading {
    key: String,
    lease: GivenBack,
    end_ms: u64,
}

impl Expected {
    fn read_end_ms(&self) -> u64 {
        let ends = self.readings.iter().map(|reading| reading.end_ms);
        ends.max().unwrap_or_default()
    }
}

struct Model {
    fleet: Fleet,
    groups: BTreeMap<usize, Expected>,
    presses: u64,
}

impl Model {
    fn key(number: usize) -> String {
        format!("key-{number}")
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Put(number) => self.put(number),
            Op::Get(number) => self.get(number),
            Op::GiveBack(at) => self.give_back(at),
            Op::Probe(number) => self.probe(number),
            Op::Remove(number, force) => self.remove(number, force),
            Op::Press(shard, puts) => {
                self.presses += 1;
                self.fleet.press(shard, puts, self.presses);
            }
            Op::Pass(ms) => self.fleet.pass(ms),
            Op::Tick(shard) => self.fleet.stages[shard].tick(),
        }
        self.check();
    }

    fn put(&mut self, number: usize) {
        let (key, group) = (Self::key(number), number % GROUPS);
        if self.fleet.put(&key, &format!("group-{group}")) == 0 {
            // The put may have evicted the rest of its own group.
            self.settle(group);
            self.groups.entry(group).or_default().members.insert(key);
        }
    }

    fn get(&mut self, number: usize) {
        let key = Self::key(number);
        let stage = self.fleet.owner(&key);
        if stage.get(&key) == 0 {
            let (lease, end_ms) = (stage.given_back(), stage.now_ms + LEASE_MS);
            let group = self.groups.entry(number % GROUPS).or_default();
            assert!(group.members.contains(&key));
            group.readings.push(Reading { key, lease, end_ms });
        }
    }

    /// A reader of each group has finished, possibly after its lease has ended.
    fn give_back(&mut self, at: usize) {
        for group in self.groups.values_mut() {
            if at < group.readings.len() {
                let Reading { key, lease, .. } = group.readings.remove(at);
                let stage = self.fleet.owner(&key);
                stage.shard.give_back(stage.now_ms, &[lease]);
                stage.shard.check();
            }
        }
    }

    fn probe(&mut self, number: usize) {
        let key = Self::key(number);
        let stage = self.fleet.owner(&key);
        let end_ms = stage.now_ms + LEASE_MS;
        let found = stage.exist(&key) == 1;
        let group = self.groups.entry(number % GROUPS).or_default();
        assert!(!found || group.members.contains(&key));
        if found {
            group.probe_end_ms = end_ms;
        }
    }

    fn remove(&mut self, number: usize, force: bool) {
        let key = Self::key(number);
        let now_ms = self.fleet.stages[0].now_ms;
        let status = self.fleet.owner(&key).remove(&key, force);
        let group = self.groups.entry(number % GROUPS).or_default();
        let leased = group.read_end_ms().max(group.probe_end_ms) > now_ms;
        assert!(status != 0 || force || !leased, "the group is leased");
        if status == 0 {
            group.members.remove(&key);
            group.readings.retain(|reading| reading.key != key);
        }
        if group.members.is_empty() {
            *group = Expected::default();
        }
    }

    /// A group whose members are all gone was evicted.
    fn settle(&mut self, group: usize) {
        let now_ms = self.fleet.stages[0].now_ms;
        let expected = self.groups.entry(group).or_default();
        let members: Vec<String> = expected.members.iter().cloned().collect();
        if self.fleet.present(&members).is_empty() {
            assert!(members.is_empty() || expected.read_end_ms() <= now_ms);
            *expected = Expected::default();
        }
    }

    fn check(&mut self) {
        for group in 0..GROUPS {
            self.settle(group);
            let expected = &self.groups[&group].members;
            let members: Vec<String> = expected.iter().cloned().collect();
            let present = self.fleet.present(&members);
            assert_eq!(&present, expected, "a group goes as a whole");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn groups_stay_and_go_as_a_whole_and_never_while_leased(
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let mut model = Model {
            fleet: Fleet::new(),
            groups: BTreeMap::new(),
            presses: 0,
        };
        ops.iter().for_each(|op| model.apply(op));
    }
}
