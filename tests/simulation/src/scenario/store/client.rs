//! A client that puts, gets, removes and copies as the store's client does: places from the master,
//! bytes over the production data path, then the master again. Invariant: every call ends within
//! its bound, and what a get hands out is compared with what was put.

mod get;

use super::contract::{Contract, Version};
use super::link::{CALL_DEADLINE, Link};
use super::master::Master;
use super::size::Size;
use super::tenants;
use super::wire::{self, PartPlace, Put, Wanted};
use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::scenario::Tally;
use crate::world::World;
use perigee_memory::{ByteRange, crc32c};
use perigee_rpc::StartedBatch;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::master::UnreadableCopy;
use perigee_schemas::{Identity, Status};
use perigee_shard::Environment;
use perigee_transfer::{SegmentClient, TransferError, WriteJob};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Keys of objects that are pinned hard: few and small, because they stay. They are in no group,
/// which they would keep.
const PINNED: [&str; 2] = ["pinned-b", "pinned-d"];
const PINNED_BYTES_MAX: u64 = 2_000;
/// Enough that no two payloads are the same.
const PAYLOAD_BYTES_MIN: u64 = 8;
const TRANSFER_DEADLINE: Duration = Duration::from_secs(10);
/// What the longest call may take: its calls to the master, its bytes twice, and a wait under a
/// lease.
const CALL_MAX: Duration = Duration::from_secs(4 * CALL_DEADLINE.as_secs() + 30);

type Mover = SegmentClient<SimulatedEnvironment>;

pub(super) struct Client {
    world: Rc<World>,
    master: Rc<Master>,
    contract: Rc<Contract>,
    size: Size,
    random: Random,
    host: HostId,
    life: RefCell<Option<Rc<Life>>>,
    calls_left: Cell<u64>,
    tasks: RefCell<Vec<Identity>>,
    tally: Cell<Tally>,
    /// Copies on disks that could not be read, by key.
    unreadable: RefCell<BTreeMap<String, UnreadableCopy>>,
}

/// What a process of a client has.
struct Life {
    identity: Identity,
    link: Link,
    mover: Mover,
}

impl Client {
    pub(super) fn new(
        world: &Rc<World>,
        master: &Rc<Master>,
        contract: &Rc<Contract>,
        size: Size,
    ) -> Self {
        let random = world.fork_random();
        Self {
            world: world.clone(),
            master: master.clone(),
            contract: contract.clone(),
            size,
            host: world.add_host(),
            life: RefCell::default(),
            calls_left: Cell::new(random.between(40, 120)),
            tasks: RefCell::default(),
            tally: Cell::default(),
            unreadable: RefCell::default(),
            random,
        }
    }

    pub(super) fn host(&self) -> HostId {
        self.host
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally.get()
    }

    pub(super) fn has_worked(&self) -> bool {
        self.calls_left.get() == 0
    }

    /// Begins to work, or goes on after its process has died; then it is another client to the
    /// master.
    pub(super) fn begin(self: &Rc<Self>) {
        let environment = self.world.environment(self.host);
        let identity = Identity(u128::from(self.random.next()));
        let life = Rc::new(Life {
            identity,
            link: Link::new(&environment, self.master.address(), identity),
            mover: SegmentClient::new(environment.clone(), identity, TRANSFER_DEADLINE),
        });
        *self.life.borrow_mut() = Some(life.clone());
        let client = self.clone();
        environment.spawn(async move {
            while !client.has_worked() {
                client.call(&life).await;
                client.calls_left.set(client.calls_left.get().saturating_sub(1));
                let longest = client.size.pause_max / (1 << client.random.below(6));
                let pause = client.random.length(Duration::ZERO, longest);
                client.world.sleep(pause).await;
            }
            life.mover.ended().await;
        });
    }

    /// Panics if records of its connections disagree.
    pub(super) fn check(&self) {
        if let Some(life) = &*self.life.borrow() {
            life.mover.check();
        }
    }

    pub(super) fn stop(&self) {
        if let Some(life) = self.life.take() {
            life.mover.stop();
            life.link.close();
        }
    }

    /// Puts a key and gets it; both must go well. Tasks must have ended.
    pub(super) async fn prove_that_all_works(&self) {
        let Some(life) = self.life.borrow().clone() else {
            return;
        };
        let key = format!("proof-{}", self.host);
        let put = self.put(&life, &key, 1000, true).await;
        self.world.check(put, || "After all faults a put failed".to_owned());
        let got = self.get(&life, &key).await;
        self.world.check(got == Some(true), || "After all faults a get failed".to_owned());
        for task in self.tasks.take() {
            let answer = life.link.ask(MessageKind::QueryTask, &wire::query_task(task)).await;
            let ended = answer.and_then(|answer| wire::has_ended(&answer.body));
            self.world.check(ended == Some(true), || {
                format!("After all faults a task has not ended: {ended:?}")
            });
        }
    }

    /// The keys that can be found.
    pub(super) async fn look_up_all(&self) -> Vec<String> {
        let Some(life) = self.life.borrow().clone() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for key in self.contract.keys() {
            let mut got = self.get(&life, &key).await;
            if self.unreadable.borrow().contains_key(&key) {
                got = self.get(&life, &key).await;
                let is_still = self.unreadable.borrow().contains_key(&key);
                self.world.check(!is_still, || format!("{key} can be neither read nor put"));
            }
            match got {
                Some(true) => found.push(key),
                // A loss of power may have torn what lies on a disk alone.
                Some(false) => self.world.check(!self.contract.is_fair(), || {
                    format!("After all faults {key} is not read")
                }),
                None => {}
            }
        }
        found
    }

    /// Removes every key that there is.
    pub(super) async fn remove_all(&self) {
        let Some(life) = self.life.borrow().clone() else {
            return;
        };
        for tenant in tenants::NAMES {
            let removed = life.link.ask(MessageKind::RemoveAll, &wire::remove_all(tenant)).await;
            self.world.check(removed.is_some(), || {
                format!("After all faults keys of {tenant} could not be removed")
            });
        }
    }

    async fn call(&self, life: &Life) {
        let (began, frozen) = (self.world.now(), self.world.frozen_time(self.host));
        let key = self.some_key();
        let went_well = match self.random.below(11) {
            0 => self.remove(life, &key, self.random.one_in(2)).await,
            1..=4 => {
                let bytes = self.some_length(&key);
                self.put(life, &key, bytes, self.random.one_in(2)).await
            }
            // What lies on disks is to go, too.
            5 if self.size.has_disks => self.remove(life, &key, true).await,
            5 => self.copy(life, &key).await,
            _ => self.get(life, &key).await == Some(true),
        };
        let frozen = self.world.frozen_time(self.host) - frozen;
        let length = (self.world.now() - began).saturating_sub(frozen);
        self.world.check(length < CALL_MAX, || {
            format!("A call took {length:?}, at most {CALL_MAX:?} were promised")
        });
        self.world.note("call", self.host as u64, u64::from(went_well));
        let mut tally = self.tally.get();
        let (done, failed) = (u64::from(went_well), u64::from(!went_well));
        tally.add(Tally { done, failed, faults: 0 });
        self.tally.set(tally);
    }

    /// Length of a payload: a few fit into no segment.
    fn some_length(&self, key: &str) -> u64 {
        if is_pinned(key) {
            return self
                .random
                .between(PAYLOAD_BYTES_MIN, PINNED_BYTES_MAX >> self.random.below(6));
        }
        match self.size.large_bytes {
            Some((least, most)) if self.random.one_in(4) => self.random.between(least, most),
            _ => {
                let most = self.size.payload_bytes_max >> self.random.below(6);
                self.random.between(PAYLOAD_BYTES_MIN, most)
            }
        }
    }

    fn some_key(&self) -> String {
        match self.random.one_in(8) {
            true => (*self.random.pick(&PINNED)).to_owned(),
            false => {
                let number = self.random.below(self.size.keys);
                self.master.tenant_key(number, &format!("key-{number}"))
            }
        }
    }

    /// The status that the master answers; `None` only if a fault explains that there is no answer.
    async fn ask(&self, life: &Life, kind: MessageKind, body: &[u8]) -> Option<Status> {
        let answer = life.link.ask(kind, body).await;
        self.world.check(answer.is_some() || !self.contract.is_calm(), || {
            format!("Without a fault the master did not answer {kind:?}")
        });
        let status = wire::status(&answer?.body);
        self.world
            .check(status.is_some(), || format!("The master answered {kind:?} without a status"));
        status
    }

    async fn remove(&self, life: &Life, key: &str, force: bool) -> bool {
        let removal = self.contract.begin_removal(key);
        let status = self.ask(life, MessageKind::Remove, &wire::remove(key, force)).await;
        let is_gone = matches!(status, Some(Status::Ok | Status::ObjectNotFound));
        if status.is_some() {
            self.contract.note_removal(&removal, is_gone);
        }
        if status == Some(Status::Ok) && !force {
            self.contract.check_no_lease(&removal, self.master.epoch());
        }
        status == Some(Status::Ok)
    }

    /// Asks for one more replica in the segment of any node.
    async fn copy(&self, life: &Life, key: &str) -> bool {
        let segments = self.master.segments();
        if segments.is_empty() {
            return false;
        }
        let (_, target) = self.random.pick(&segments);
        let id = Identity(u128::from(self.random.next()));
        self.tasks.borrow_mut().push(id);
        let task = wire::create_copy(id, key, &target.name);
        life.link.ask(MessageKind::CreateTask, &task).await.is_some()
    }

    async fn put(&self, life: &Life, key: &str, bytes: u64, upsert: bool) -> bool {
        let payload = self.random.bytes(bytes as usize);
        // A pinned key that is replaced stays pinned.
        let hard_pin = is_pinned(key) && (!upsert || self.random.one_in(2));
        let version = self.contract.begin_put(key, payload, hard_pin);
        let wanted = Wanted {
            key,
            group: &group_of(key),
            bytes,
            replicas: self.random.between(1, 2) as u32,
            upsert,
            hard_pin,
        };
        let (evicted, asked) = (self.master.evicted_keys(), self.world.now());
        let start = wire::put_start(life.identity, &wanted);
        let Some(places) = self.start(life, &start).await else {
            return false;
        };
        // A master that has just begun lets puts begin before it knows all keys.
        let may_replace = upsert || !self.contract.is_calm();
        self.world.check(may_replace || !self.must_be_there(key, asked, evicted), || {
            format!("A put of {key} that is no upsert began although the key is there")
        });
        let Some(generation) = places.first().map(|place| place.address.generation) else {
            return false;
        };
        self.contract.note_started(&version);
        let outcome = self.write(&life.mover, &places, &version).await;
        let put = Put { client: life.identity, key, generation };
        let errors: Vec<_> = outcome.iter().filter_map(|found| found.as_ref().err()).collect();
        if errors.is_empty() {
            return self.end(life, &put, &version, &places, upsert).await;
        }
        self.world.check(!self.contract.is_calm(), || {
            format!("Without a fault a put was not written: {}", errors[0])
        });
        let in_flight = errors.iter().any(|error| error.is_peer_fault());
        let revoke = wire::put_revoke(&put, in_flight, upsert);
        self.ask(life, MessageKind::PutRevoke, &revoke).await;
        false
    }

    /// The places of a put, if there are any.
    async fn start(&self, life: &Life, start: &[u8]) -> Option<Vec<PartPlace>> {
        let answer = life.link.ask(MessageKind::PutStart, start).await;
        self.world.check(answer.is_some() || !self.contract.is_calm(), || {
            "Without a fault a put was not started".to_owned()
        });
        let started = wire::sound(&self.world, StartedBatch::decode(&answer?.body, 1))?;
        let places = || wire::part_places(&started.segments, &started.locations);
        (started.status[0] == Status::Ok).then(places)
    }

    async fn write(
        &self,
        mover: &Mover,
        places: &[PartPlace],
        version: &Version,
    ) -> Vec<Result<u32, TransferError>> {
        let piece = |place: &PartPlace| [ByteRange::from(&version.payload[place.range.clone()])];
        let pieces: Vec<[ByteRange; 1]> = places.iter().map(piece).collect();
        let jobs = places.iter().zip(&pieces);
        let jobs = jobs.map(|(place, pieces)| WriteJob { place: &place.address, pieces });
        let jobs: Vec<_> = jobs.collect();
        // SAFETY: the caller's version outlives the journey; should the task be dropped before its
        // end, its host has died and the network has forgotten its operations.
        let batch = unsafe { mover.write(&jobs) };
        self.world.until(batch.watch()).await;
        batch.outcome().unwrap_or_default()
    }

    /// Makes a put visible. An answer that is lost is asked for again, now and then.
    async fn end(
        &self,
        life: &Life,
        put: &Put<'_>,
        version: &Version,
        places: &[PartPlace],
        upsert: bool,
    ) -> bool {
        self.contract.note_ending(version);
        let part = |place: &PartPlace| {
            place.part.map(|part| (part, crc32c(&version.payload[place.range.clone()])))
        };
        let parts: BTreeMap<u8, u32> = places.iter().filter_map(part).collect();
        let parts: Vec<u32> = parts.into_values().collect();
        let end = wire::put_end(put, version.checksum, &parts, upsert);
        let mut ended = self.ask(life, MessageKind::PutEnd, &end).await;
        if ended.is_none() && self.random.one_in(2) {
            ended = self.ask(life, MessageKind::PutEnd, &end).await;
        }
        let is_readable = matches!(ended, Some(Status::Ok | Status::ObjectAlreadyExists));
        if is_readable {
            self.contract.note_ended(version);
        }
        // Another client may have removed or replaced the key.
        let is_overtaken = matches!(ended, Some(Status::InvalidWrite | Status::ObjectNotFound));
        let is_explained = is_readable || is_overtaken || !self.contract.is_calm();
        self.world
            .check(is_explained, || format!("Without a fault a put was not ended: {ended:?}"));
        ended == Some(Status::Ok)
    }
}

fn is_pinned(key: &str) -> bool {
    PINNED.contains(&key)
}

/// Every other key is in a group, whose members are on all shards.
fn group_of(key: &str) -> Cow<'static, str> {
    match key.bytes().last() {
        Some(last) if last % 2 == 1 => tenants::of(key).stored("odd").into_owned().into(),
        _ => "".into(),
    }
}
