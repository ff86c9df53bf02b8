//! A client that writes and reads, knows what it must find, and how long a call may take.

use super::ground::{Ground, Object};
use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::scenario::Tally;
use crate::world::World;
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_schemas::Identity;
use perigee_shard::Environment;
use perigee_transfer::{ReadJob, SegmentClient, SubmittedJobs, TransferError, WriteJob};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Objects in one call.
const BATCH_MAX: u64 = 4;
/// Objects that a client remembers after they may have gone.
const REMEMBERED_MAX: usize = 60;
/// Longest that a connection takes to be made and greeted: twice, because a broken one is made
/// again.
const CONNECTING: Duration = Duration::from_secs(8);
/// For turns of tasks, and for the time per byte that a batch is given.
const SLACK: Duration = Duration::from_millis(200);

type Mover = SegmentClient<SimulatedEnvironment>;

pub(super) struct Client {
    world: Rc<World>,
    ground: Rc<Ground>,
    random: Random,
    host: HostId,
    deadline: Duration,
    mover: RefCell<Option<Rc<Mover>>>,
    calls_left: Cell<u64>,
    known: RefCell<Vec<Object>>,
    tally: Cell<Tally>,
}

impl Client {
    pub(super) fn new(world: &Rc<World>, ground: &Rc<Ground>) -> Self {
        let random = world.fork_random();
        let least_ms = if ground.is_calm() { 2_000 } else { 300 };
        Self {
            world: world.clone(),
            ground: ground.clone(),
            host: world.add_host(),
            deadline: Duration::from_millis(random.between(least_ms, 10_000)),
            mover: RefCell::default(),
            calls_left: Cell::new(random.between(5, 40)),
            known: RefCell::default(),
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

    /// Begins to work, or goes on after its process has died.
    pub(super) fn begin(self: &Rc<Self>) {
        self.ground.writer_died(self.host);
        let environment = self.world.environment(self.host);
        let identity = Identity(u128::from(self.random.next()));
        let mover = Rc::new(SegmentClient::new(environment.clone(), identity, self.deadline));
        *self.mover.borrow_mut() = Some(mover.clone());
        let client = self.clone();
        environment.spawn(async move {
            while !client.has_worked() {
                client.call(&mover).await;
                client.calls_left.set(client.calls_left.get().saturating_sub(1));
                client.pause().await;
            }
            mover.ended().await;
        });
    }

    /// Panics if records of its connections disagree.
    pub(super) fn check(&self) {
        if let Some(mover) = &*self.mover.borrow() {
            mover.check();
        }
    }

    pub(super) fn stop(&self) {
        if let Some(mover) = self.mover.take() {
            mover.stop();
        }
    }

    /// Writes and reads on each server; it must go well.
    pub(super) async fn prove_that_all_works(&self) {
        let Some(mover) = self.mover.borrow().clone() else {
            return;
        };
        for server in 0..self.ground.count() {
            let Some(object) = self.ground.reserve(server, self.host, &self.random) else {
                return self.world.violate("No writer is left, but a slot has one");
            };
            let written = self.write(&mover, std::slice::from_ref(&object)).await;
            self.must(&written, "write");
            let read = self.read(&mover, std::slice::from_ref(&object)).await;
            self.must(&read, "read");
        }
    }

    fn must<T>(&self, outcome: &[Result<T, TransferError>], what: &str) {
        for error in outcome.iter().filter_map(|found| found.as_ref().err()) {
            self.world.violate(format!("Without a fault a {what} failed: {error}"));
        }
    }

    /// Mostly a short moment, seldom so long that idle connections are given up.
    async fn pause(&self) {
        let long = self.random.one_in(20);
        let longest = Duration::from_secs(if long { 100 } else { 1 });
        let pause = self.random.length(Duration::ZERO, longest);
        self.world.sleep(pause).await;
    }

    async fn call(&self, mover: &Mover) {
        match self.random.below(10) {
            0 => self.write_outside(mover).await,
            1..=4 => {
                let server = self.random.below(self.ground.count() as u64) as usize;
                let reserve = |_| self.ground.reserve(server, self.host, &self.random);
                let batch = self.random.between(1, BATCH_MAX);
                let objects: Vec<_> = (0..batch).filter_map(reserve).collect();
                let outcome = self.write(mover, &objects).await;
                if self.ground.is_calm() {
                    self.must(&outcome, "write");
                }
            }
            _ => {
                let known = self.known.borrow().clone();
                if known.is_empty() {
                    return;
                }
                let batch = self.random.between(1, BATCH_MAX);
                let objects: Vec<_> =
                    (0..batch).map(|_| self.random.pick(&known).clone()).collect();
                self.read(mover, &objects).await;
            }
        }
    }

    /// Writes objects; what went well must be in memory.
    async fn write(&self, mover: &Mover, objects: &[Object]) -> Vec<Result<u32, TransferError>> {
        let pieces: Vec<_> =
            objects.iter().map(|object| [ByteRange::from(object.payload.as_slice())]).collect();
        let jobs: Vec<_> = objects
            .iter()
            .zip(&pieces)
            .map(|(object, pieces)| WriteJob { place: &object.place, pieces })
            .collect();
        // SAFETY: the payloads live in `objects`, which outlives the journey; should the task be
        // dropped before its end, its host has died and the network has forgotten its operations.
        let batch = unsafe { mover.write(&jobs) };
        let outcome = self.travel(batch).await;
        for (object, outcome) in objects.iter().zip(&outcome) {
            if let Ok(sum) = outcome {
                let (sum, wanted) = (*sum, object.checksum);
                self.world.check(sum == wanted, || format!("Write summed to {sum}, not {wanted}"));
            }
            self.ground.written(object, outcome.is_ok());
            self.remember(object);
        }
        outcome
    }

    /// Reads objects; what is handed out must be what was written.
    async fn read(&self, mover: &Mover, objects: &[Object]) -> Vec<Result<u32, TransferError>> {
        let mut targets: Vec<_> =
            objects.iter().map(|object| vec![0xEE; object.payload.len()]).collect();
        let before: Vec<_> = objects.iter().map(|object| self.standing(object)).collect();
        let outcome = {
            let pieces: Vec<_> = targets
                .iter_mut()
                .map(|target| [ByteRangeMut::from(target.as_mut_slice())])
                .collect();
            let jobs: Vec<_> = objects
                .iter()
                .zip(&pieces)
                .map(|(object, pieces)| ReadJob {
                    place: &object.place,
                    checksum: object.checksum,
                    pieces,
                })
                .collect();
            // SAFETY: as in `write`; nothing else uses the targets.
            let batch = unsafe { mover.read(&jobs) };
            self.travel(batch).await
        };
        for (number, object) in objects.iter().enumerate() {
            self.judge_read(object, &outcome[number], &targets[number], before[number]);
        }
        outcome
    }

    /// Whether an object must be found, and whether it must not.
    fn standing(&self, object: &Object) -> (bool, bool) {
        (self.ground.is_current(object), self.ground.is_past(object))
    }

    fn judge_read(
        &self,
        object: &Object,
        outcome: &Result<u32, TransferError>,
        target: &[u8],
        (was_current, was_past): (bool, bool),
    ) {
        match outcome {
            Ok(_) => {
                self.world.check(target == object.payload.as_slice(), || {
                    "A read handed out other bytes than were written".to_owned()
                });
                self.world.check(!was_past, || {
                    "A read found an object that is gone: an earlier generation or life".to_owned()
                });
            }
            Err(error) if self.ground.is_calm() && was_current => {
                let is_current = self.ground.is_current(object);
                self.world.check(!is_current, || format!("Without a fault a read failed: {error}"));
            }
            Err(_) => {}
        }
    }

    /// Writes where nothing may be written: the ground sees whether a byte changes.
    async fn write_outside(&self, mover: &Mover) {
        let server = self.random.below(self.ground.count() as u64) as usize;
        let place = self.ground.outside(server, &self.random);
        let payload = self.random.bytes(place.payload_bytes as usize);
        let pieces = [ByteRange::from(payload.as_slice())];
        let jobs = [WriteJob { place: &place, pieces: &pieces }];
        // SAFETY: as in `write`.
        let batch = unsafe { mover.write(&jobs) };
        let outcome = self.travel(batch).await;
        self.world.check(outcome.iter().all(Result::is_err), || {
            "A write outside of the segment went well".to_owned()
        });
    }

    /// Waits for a batch, which must end in time.
    async fn travel(&self, batch: SubmittedJobs<'_>) -> Vec<Result<u32, TransferError>> {
        let (begun, frozen) = (self.world.now(), self.world.frozen_time(self.host));
        let watch = batch.watch();
        self.world.until(watch).await;
        let frozen = self.world.frozen_time(self.host) - frozen;
        let took = (self.world.now() - begun).saturating_sub(frozen);
        let longest = (2 * self.deadline).max(self.deadline + CONNECTING) + SLACK;
        self.world.check(took <= longest, || {
            format!("A call took {took:?}, with a deadline of {:?}", self.deadline)
        });
        let outcome = batch.outcome().unwrap_or_default();
        let failed = outcome.iter().filter(|found| found.is_err()).count() as u64;
        let done = outcome.len() as u64 - failed;
        self.world.note("call", self.host as u64, done * 1000 + failed);
        let mut tally = self.tally.get();
        tally.add(Tally { done, failed, faults: 0 });
        self.tally.set(tally);
        outcome
    }

    fn remember(&self, object: &Object) {
        let mut known = self.known.borrow_mut();
        if known.len() == REMEMBERED_MAX {
            let forgotten = self.random.below(REMEMBERED_MAX as u64) as usize;
            known.swap_remove(forgotten);
        }
        known.push(object.clone());
    }
}
