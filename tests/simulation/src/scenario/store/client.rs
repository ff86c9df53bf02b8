//! A client that puts, gets and removes as the store's client does: places from the master, bytes over the production data
//! path, then the master again. Invariant: what a get hands out is compared with what the key held when it was looked up.

use super::ledger::{Ledger, Version};
use super::master::{Found, Master};
use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::scenario::Tally;
use crate::world::World;
use perigee_memory::{Piece, PieceMut, crc32c};
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

/// Statuses of a put whose key another client has replaced or removed.
const OVERTAKEN: i32 = Status::InvalidWrite.code();
const SUPERSEDED: i32 = Status::ObjectAlreadyExists.code();
const REMOVED: i32 = Status::ObjectNotFound.code();

type Mover = ShardClient<SimulatedEnvironment>;

pub(super) struct Client {
    world: Rc<World>,
    master: Rc<Master>,
    ledger: Rc<Ledger>,
    random: Random,
    host: HostId,
    identity: Cell<u128>,
    mover: RefCell<Option<Rc<Mover>>>,
    calls_left: Cell<u64>,
    tally: Cell<Tally>,
}

impl Client {
    pub(super) fn new(world: &Rc<World>, master: &Rc<Master>, ledger: &Rc<Ledger>) -> Self {
        let random = world.fork_random();
        Self {
            world: world.clone(),
            master: master.clone(),
            ledger: ledger.clone(),
            host: world.add_host(),
            identity: Cell::new(0),
            mover: RefCell::default(),
            calls_left: Cell::new(random.between(40, 120)),
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
        self.identity.set(u128::from(self.random.next()));
        let identity = Identity(self.identity.get());
        let mover = Rc::new(ShardClient::new(
            environment.clone(),
            identity,
            TRANSFER_DEADLINE,
        ));
        *self.mover.borrow_mut() = Some(mover.clone());
        let client = self.clone();
        environment.spawn(async move {
            while !client.has_worked() {
                client.call(&mover).await;
                client
                    .calls_left
                    .set(client.calls_left.get().saturating_sub(1));
                let longest = Duration::from_secs(4) / (1 << client.random.below(6));
                let pause = client.random.length(Duration::ZERO, longest);
                client.world.sleep(pause).await;
            }
            mover.ended().await;
        });
    }

    pub(super) fn stop(&self) {
        if let Some(mover) = self.mover.take() {
            mover.stop();
        }
    }

    /// Puts a key and gets it; both must go well.
    pub(super) async fn prove_that_all_works(&self) {
        let Some(mover) = self.mover.borrow().clone() else {
            return;
        };
        let key = format!("proof-{}", self.host);
        let put = self.put(&mover, &key, 1000, true).await;
        self.world
            .check(put, || "After all faults a put failed".to_owned());
        let got = self.get(&mover, &key).await;
        self.world.check(got == Some(true), || {
            "After all faults a get failed".to_owned()
        });
    }

    async fn call(&self, mover: &Mover) {
        let key = format!("key-{}", self.random.below(KEYS));
        let went_well = match self.random.below(10) {
            0 => {
                let force = self.random.one_in(2);
                self.master.remove(self.host, key, force).await == Some(Status::Ok)
            }
            1..=4 => {
                let bytes = self
                    .random
                    .between(1, PAYLOAD_BYTES_MAX >> self.random.below(6));
                self.put(mover, &key, bytes, self.random.one_in(2)).await
            }
            _ => self.get(mover, &key).await == Some(true),
        };
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

    async fn put(&self, mover: &Mover, key: &str, bytes: u64, upsert: bool) -> bool {
        let payload = self.random.bytes(bytes as usize);
        let version = Rc::new(Version {
            checksum: crc32c(&payload),
            payload,
        });
        let asked = (self.identity.get(), key.to_owned(), bytes);
        let replicas = self.random.between(1, 2) as u32;
        let started = self
            .master
            .put_start(self.host, asked, (replicas, upsert))
            .await;
        let Some((0, places)) = started else {
            return false;
        };
        let Some(generation) = places.first().map(|place| place.generation) else {
            return false;
        };
        let outcome = self.write(mover, &places, &version).await;
        let name = (self.identity.get(), key.to_owned(), generation);
        let errors: Vec<_> = outcome
            .iter()
            .filter_map(|found| found.as_ref().err())
            .collect();
        if errors.is_empty() {
            let ended = self.master.put_end(self.host, name, version).await;
            // Another client may have removed or replaced the key meanwhile.
            let is_explained = matches!(ended, Some(0 | OVERTAKEN | SUPERSEDED | REMOVED));
            self.world
                .check(!self.ledger.is_calm() || is_explained, || {
                    format!("Without a fault a put was not ended: {ended:?}")
                });
            return ended == Some(0);
        }
        self.world.check(!self.ledger.is_calm(), || {
            format!("Without a fault a put was not written: {}", errors[0])
        });
        let in_flight = errors.iter().any(|error| error.is_peer_fault());
        self.master.put_revoke(self.host, name, in_flight).await;
        false
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

    /// Gets a key: whether its bytes came, or `None` if it is not there or cannot be asked for.
    async fn get(&self, mover: &Mover, key: &str) -> Option<bool> {
        let found = self.master.get(self.host, key.to_owned()).await??;
        if self.random.one_in(2) {
            // A slow reader: the lease is there for it.
            let left = found.lease_end.saturating_sub(self.world.now());
            self.world
                .sleep(self.random.length(Duration::ZERO, left * 3 / 4))
                .await;
        }
        for index in 0..found.places.len() {
            if self.read(mover, &found, index).await {
                return Some(true);
            }
        }
        let must_be_there = self.ledger.is_calm() && self.world.now() < found.lease_end;
        self.world
            .check(!must_be_there, || format!("Without a fault {key} was lost"));
        Some(false)
    }

    /// Reads one replica.
    async fn read(&self, mover: &Mover, found: &Found, index: usize) -> bool {
        let mut target = vec![0xEE; found.version.payload.len()];
        let outcome = {
            let pieces = [PieceMut::from(target.as_mut_slice())];
            let jobs = [ReadJob {
                place: &found.places[index],
                checksum: found.version.checksum,
                pieces: &pieces,
            }];
            // SAFETY: as in `write`; nobody else uses the target meanwhile.
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
                self.judge(found, index, error);
                false
            }
            None => false,
        }
    }

    /// Bytes under a lease may be out of reach, but not overwritten.
    fn judge(&self, found: &Found, index: usize, error: &TransferError) {
        let is_overwritten = matches!(error, TransferError::Stale | TransferError::Checksum { .. });
        let is_leased = self.world.now() < found.lease_end;
        let is_mounted = self.master.is_mounted(found.life, found.segments[index]);
        let must_be_there = is_leased && is_mounted && self.ledger.is_settled();
        self.world.check(!(is_overwritten && must_be_there), || {
            format!("Bytes under a lease were overwritten: {error}")
        });
    }
}
