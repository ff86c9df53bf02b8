//! A client that puts, gets, removes and copies as the store's client does: places from the master, bytes over the
//! production data path, then the master again. Invariant: every call ends within its bound, and what a get hands out is
//! compared with what was put.

use super::contract::{Contract, Version};
use super::link::{CALL_DEADLINE, Link};
use super::master::Master;
use super::wire::{self, Put};
use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::scenario::Tally;
use crate::world::World;
use perigee_memory::{Piece, PieceMut};
use perigee_rpc::{Located, Started};
use perigee_schemas::frame::Kind;
use perigee_schemas::{Identity, Status};
use perigee_shard::Environment;
use perigee_transfer::{Place, ReadJob, ShardClient, TransferError, WriteJob};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Few, so that keys are replaced and removed while others read them.
const KEYS: u64 = 5;
const PAYLOAD_BYTES_MAX: u64 = 150_000;
const TRANSFER_DEADLINE: Duration = Duration::from_secs(10);
/// What the longest call may take: its calls to the master, its bytes twice, and a wait under a lease.
const CALL_MAX: Duration = Duration::from_secs(4 * CALL_DEADLINE.as_secs() + 30);

type Mover = ShardClient<SimulatedEnvironment>;

pub(super) struct Client {
    world: Rc<World>,
    master: Rc<Master>,
    contract: Rc<Contract>,
    random: Random,
    host: HostId,
    life: RefCell<Option<Rc<Life>>>,
    calls_left: Cell<u64>,
    tasks: RefCell<Vec<Identity>>,
    tally: Cell<Tally>,
}

/// What a process of a client has.
struct Life {
    identity: Identity,
    link: Link,
    mover: Mover,
}

/// A key that was found: what it must hold, and where it lies.
struct Found {
    version: Rc<Version>,
    places: Vec<Place>,
    lease_end: Duration,
    /// Which life of the master has said so.
    epoch: u64,
}

impl Client {
    pub(super) fn new(world: &Rc<World>, master: &Rc<Master>, contract: &Rc<Contract>) -> Self {
        let random = world.fork_random();
        Self {
            world: world.clone(),
            master: master.clone(),
            contract: contract.clone(),
            host: world.add_host(),
            life: RefCell::default(),
            calls_left: Cell::new(random.between(40, 120)),
            tasks: RefCell::default(),
            tally: Cell::default(),
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

    /// Begins to work, or goes on after its process has died; then it is another client to the master.
    pub(super) fn begin(self: &Rc<Self>) {
        let environment = self.world.environment(self.host);
        let identity = Identity(u128::from(self.random.next()));
        let life = Rc::new(Life {
            identity,
            link: Link::new(&environment, self.master.address(), identity),
            mover: ShardClient::new(environment.clone(), identity, TRANSFER_DEADLINE),
        });
        *self.life.borrow_mut() = Some(life.clone());
        let client = self.clone();
        environment.spawn(async move {
            while !client.has_worked() {
                client.call(&life).await;
                client
                    .calls_left
                    .set(client.calls_left.get().saturating_sub(1));
                let longest = Duration::from_secs(4) / (1 << client.random.below(6));
                let pause = client.random.length(Duration::ZERO, longest);
                client.world.sleep(pause).await;
            }
            life.mover.ended().await;
        });
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
        self.world
            .check(put, || "After all faults a put failed".to_owned());
        let got = self.get(&life, &key).await;
        self.world.check(got == Some(true), || {
            "After all faults a get failed".to_owned()
        });
        for task in self.tasks.take() {
            let answer = life
                .link
                .ask(Kind::QueryTask, &wire::query_task(task))
                .await;
            let ended = answer.and_then(|answer| wire::has_ended(&answer.body));
            self.world.check(ended == Some(true), || {
                format!("After all faults a task has not ended: {ended:?}")
            });
        }
    }

    /// Removes every key that there is.
    pub(super) async fn remove_all(&self) {
        let Some(life) = self.life.borrow().clone() else {
            return;
        };
        let removed = life.link.ask(Kind::RemoveAll, &wire::remove_all()).await;
        self.world.check(removed.is_some(), || {
            "After all faults keys could not be removed".to_owned()
        });
    }

    async fn call(&self, life: &Life) {
        let (began, frozen) = (self.world.now(), self.world.frozen_time(self.host));
        let key = format!("key-{}", self.random.below(KEYS));
        let went_well = match self.random.below(11) {
            0 => self.remove(life, &key, self.random.one_in(2)).await,
            1..=4 => {
                let bytes = self
                    .random
                    .between(1, PAYLOAD_BYTES_MAX >> self.random.below(6));
                self.put(life, &key, bytes, self.random.one_in(2)).await
            }
            5 => self.copy(life, &key).await,
            _ => self.get(life, &key).await == Some(true),
        };
        let frozen = self.world.frozen_time(self.host) - frozen;
        let length = (self.world.now() - began).saturating_sub(frozen);
        self.world.check(length < CALL_MAX, || {
            format!("A call took {length:?}, at most {CALL_MAX:?} were promised")
        });
        self.world
            .note("call", self.host as u64, u64::from(went_well));
        let mut tally = self.tally.get();
        let (done, failed) = (u64::from(went_well), u64::from(!went_well));
        tally.add(Tally {
            done,
            failed,
            faults: 0,
        });
        self.tally.set(tally);
    }

    /// The status that the master answers; `None` only if a fault explains that there is no answer.
    async fn ask(&self, life: &Life, kind: Kind, body: &[u8]) -> Option<Status> {
        let answer = life.link.ask(kind, body).await;
        self.world
            .check(answer.is_some() || !self.contract.is_calm(), || {
                format!("Without a fault the master did not answer {kind:?}")
            });
        let status = wire::status(&answer?.body);
        self.world.check(status.is_some(), || {
            format!("The master answered {kind:?} without a status")
        });
        status
    }

    async fn remove(&self, life: &Life, key: &str, force: bool) -> bool {
        let removal = self.contract.begin_removal(key);
        let status = self
            .ask(life, Kind::Remove, &wire::remove(key, force))
            .await;
        let is_gone = matches!(status, Some(Status::Ok | Status::ObjectNotFound));
        if status.is_some() {
            self.contract.note_removal(&removal, is_gone);
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
        life.link.ask(Kind::CreateTask, &task).await.is_some()
    }

    async fn put(&self, life: &Life, key: &str, bytes: u64, upsert: bool) -> bool {
        let payload = self.random.bytes(bytes as usize);
        let version = self.contract.begin_put(key, payload);
        let replicas = self.random.between(1, 2) as u32;
        let wanted = (key, group_of(key), bytes);
        let start = wire::put_start(life.identity, wanted, (replicas, upsert));
        let Some(places) = self.start(life, &start).await else {
            return false;
        };
        let Some(generation) = places.first().map(|place| place.generation) else {
            return false;
        };
        self.contract.note_started(&version);
        let outcome = self.write(&life.mover, &places, &version).await;
        let put = Put {
            client: life.identity,
            key,
            generation,
        };
        let errors: Vec<_> = outcome
            .iter()
            .filter_map(|found| found.as_ref().err())
            .collect();
        if errors.is_empty() {
            return self.end(life, &put, &version, upsert).await;
        }
        self.world.check(!self.contract.is_calm(), || {
            format!("Without a fault a put was not written: {}", errors[0])
        });
        let in_flight = errors.iter().any(|error| error.is_peer_fault());
        let revoke = wire::put_revoke(&put, in_flight, upsert);
        self.ask(life, Kind::PutRevoke, &revoke).await;
        false
    }

    /// The places of a put, if there are any.
    async fn start(&self, life: &Life, start: &[u8]) -> Option<Vec<Place>> {
        let answer = life.link.ask(Kind::PutStart, start).await;
        self.world
            .check(answer.is_some() || !self.contract.is_calm(), || {
                "Without a fault a put was not started".to_owned()
            });
        let started = wire::sound(&self.world, Started::decode(&answer?.body, 1))?;
        let place = |location| wire::place(&started.segments, location);
        (started.status[0] == Status::Ok).then(|| started.locations.iter().map(place).collect())
    }

    async fn write(
        &self,
        mover: &Mover,
        places: &[Place],
        version: &Version,
    ) -> Vec<Result<u32, TransferError>> {
        let pieces = [Piece::from(version.payload.as_slice())];
        let job = |place| WriteJob {
            place,
            pieces: &pieces,
        };
        let jobs: Vec<_> = places.iter().map(job).collect();
        // SAFETY: the caller's version outlives the journey; should the task be dropped before its end, its host has died
        // and the network has forgotten its operations.
        let journey = unsafe { mover.write(&jobs) };
        self.world.until(journey.watch()).await;
        journey.outcome().unwrap_or_default()
    }

    /// Makes a put visible. An answer that is lost is asked for again, now and then.
    async fn end(&self, life: &Life, put: &Put<'_>, version: &Version, upsert: bool) -> bool {
        self.contract.note_ending(version);
        let end = wire::put_end(put, version.checksum, upsert);
        let mut ended = self.ask(life, Kind::PutEnd, &end).await;
        if ended.is_none() && self.random.one_in(2) {
            ended = self.ask(life, Kind::PutEnd, &end).await;
        }
        let is_readable = matches!(ended, Some(Status::Ok | Status::ObjectAlreadyExists));
        if is_readable {
            self.contract.note_ended(version);
        }
        // Another client may have removed or replaced the key.
        let is_overtaken = matches!(ended, Some(Status::InvalidWrite | Status::ObjectNotFound));
        let is_explained = is_readable || is_overtaken || !self.contract.is_calm();
        self.world.check(is_explained, || {
            format!("Without a fault a put was not ended: {ended:?}")
        });
        ended == Some(Status::Ok)
    }

    /// Gets a key: whether its bytes came, or `None` if it is not there or cannot be asked for.
    async fn get(&self, life: &Life, key: &str) -> Option<bool> {
        let (evicted, asked) = (self.master.evicted_keys(), self.world.now());
        let body = wire::get_replicas(key);
        let answer = life.link.ask(Kind::GetReplicas, &body).await;
        self.world
            .check(answer.is_some() || !self.contract.is_calm(), || {
                "Without a fault a lookup was not answered".to_owned()
            });
        let answer = answer?;
        let located = wire::sound(&self.world, Located::decode(&answer.body, 1))?;
        if located.places.status[0] != Status::Ok {
            self.judge_miss(key, asked, located.places.status[0], evicted);
            return None;
        }
        let place = |location| wire::place(&located.places.segments, location);
        let found = Found {
            version: self.contract.found(key, located.checksum[0], asked)?,
            places: located.places.locations.iter().map(place).collect(),
            lease_end: asked + Duration::from_millis(located.lease_ttl_ms),
            epoch: answer.epoch,
        };
        let got = self.get_found(life, key, &found).await;
        if let Some(lease) = located.leases[0].filter(|_| got && self.random.one_in(2)) {
            life.link.give_back((lease.name, lease.generation));
        }
        Some(got)
    }

    /// Only eviction takes keys that nobody has removed.
    fn judge_miss(&self, key: &str, asked: Duration, status: Status, evicted: u64) {
        if status == Status::ObjectNotFound {
            self.contract.note_absent(key, asked);
        }
        let nothing_was_evicted = evicted == 0 && self.master.evicted_keys() == 0;
        let must_be_there = nothing_was_evicted && self.contract.must_be_there(key, asked);
        self.world.check(!must_be_there, || {
            format!("Without a fault {key} was not found after its put was acknowledged: {status}")
        });
    }

    async fn get_found(&self, life: &Life, key: &str, found: &Found) -> bool {
        if self.random.one_in(2) {
            // A slow reader: the lease is there for it.
            let left = found.lease_end.saturating_sub(self.world.now());
            self.world
                .sleep(self.random.length(Duration::ZERO, left * 3 / 4))
                .await;
        }
        for place in &found.places {
            if self.read(&life.mover, found, place).await {
                return true;
            }
        }
        let must_be_there = self.contract.is_calm() && self.world.now() < found.lease_end;
        self.world
            .check(!must_be_there, || format!("Without a fault {key} was lost"));
        false
    }

    /// Reads one replica.
    async fn read(&self, mover: &Mover, found: &Found, place: &Place) -> bool {
        let mut target = vec![0xEE; found.version.payload.len()];
        let outcome = {
            let pieces = [PieceMut::from(target.as_mut_slice())];
            let jobs = [ReadJob {
                place,
                checksum: found.version.checksum,
                pieces: &pieces,
            }];
            // SAFETY: as in `write`; nobody else uses the target at the same time.
            let journey = unsafe { mover.read(&jobs) };
            self.world.until(journey.watch()).await;
            journey.outcome().unwrap_or_default()
        };
        match outcome.first() {
            Some(Ok(_)) => {
                self.world.check(target == found.version.payload, || {
                    "A get handed out other bytes than were put".to_owned()
                });
                true
            }
            Some(Err(error)) => {
                self.judge(found, place, error);
                false
            }
            None => false,
        }
    }

    /// Bytes under a lease may be out of reach, but not overwritten.
    fn judge(&self, found: &Found, place: &Place, error: &TransferError) {
        let is_overwritten = matches!(error, TransferError::Stale | TransferError::Checksum { .. });
        let is_leased = self.world.now() < found.lease_end;
        let is_mounted = self.master.is_mounted(found.epoch, place.segment.id.0);
        let must_be_there = is_leased && is_mounted && self.contract.is_settled();
        self.world.check(!(is_overwritten && must_be_there), || {
            format!("Bytes under a lease were overwritten: {error}")
        });
    }
}

/// Every other key is in a group, whose members are on all shards.
fn group_of(key: &str) -> &'static str {
    match key.bytes().last() {
        Some(last) if last % 2 == 1 => "odd",
        _ => "",
    }
}
