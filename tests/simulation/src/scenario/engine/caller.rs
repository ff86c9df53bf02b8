//! A caller that reads and writes the memory of engines, and knows what must come of it.

use super::field::{Field, Ground};
use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::scenario::Tally;
use crate::world::World;
use perigee_engine::{Direction, ShardClient, ShardTarget, TransferRequest, TransferState};
use perigee_schemas::Identity;
use perigee_shard::Environment;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Requests in one batch.
const BATCH_MAX: u64 = 4;
/// For turns of tasks, and for the time per byte that a batch is given.
const SLACK: Duration = Duration::from_millis(100);
/// Longest that a batch takes to be over after it was taken back.
const CANCELING_MAX: Duration = Duration::from_secs(4);
/// Time for batches that must go well.
const PATIENT: Duration = Duration::from_secs(60);
/// What local memory is filled with once a batch is over.
const LEFT: u8 = 0xA5;

type Mover = ShardClient<SimulatedEnvironment>;

/// A request's local memory: its bytes, which way they go, and what they are for.
struct Local {
    bytes: Vec<u8>,
    direction: Direction,
    remote: u64,
    ground: Option<Ground>,
}

pub(super) struct Caller {
    world: Rc<World>,
    field: Rc<Field>,
    random: Random,
    host: HostId,
    with_checksum: bool,
    mover: RefCell<Option<Rc<Mover>>>,
    calls_left: Cell<u64>,
    /// What the present batch addresses, should the process die.
    held: RefCell<Vec<Ground>>,
    /// Local memory of batches that are over.
    left: RefCell<Vec<Vec<u8>>>,
    tally: Cell<Tally>,
}

impl Caller {
    pub(super) fn new(world: &Rc<World>, field: &Rc<Field>, with_checksum: bool) -> Self {
        let random = world.fork_random();
        Self {
            world: world.clone(),
            field: field.clone(),
            host: world.add_host(),
            with_checksum,
            mover: RefCell::default(),
            calls_left: Cell::new(random.between(5, 40)),
            held: RefCell::default(),
            left: RefCell::default(),
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
        self.field.abandon(&self.held.take());
        let environment = self.world.environment(self.host);
        let identity = Identity(u128::from(self.random.next()));
        let mover = Rc::new(ShardClient::new(environment.clone(), identity, self.with_checksum));
        *self.mover.borrow_mut() = Some(mover.clone());
        let caller = self.clone();
        environment.spawn(async move {
            while !caller.has_worked() {
                caller.call(&mover).await;
                caller.calls_left.set(caller.calls_left.get().saturating_sub(1));
                let longest = Duration::from_secs(if caller.random.one_in(20) { 100 } else { 1 });
                let pause = caller.random.length(Duration::ZERO, longest);
                caller.world.sleep(pause).await;
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
        let left = self.left.take();
        let is_untouched = left.iter().flatten().all(|byte| *byte == LEFT);
        self.world.check(is_untouched, || "Local memory was written after its batch".to_owned());
    }

    /// Writes and reads with each engine; it must go well.
    pub(super) async fn prove_that_all_works(&self) {
        let Some(mover) = self.mover.borrow().clone() else {
            return;
        };
        for engine in 0..self.field.count() {
            for writes in [true, false] {
                let ground = self.field.reserve(engine, writes, &self.random);
                if let (Some(ground), Some(target)) = (ground, self.field.target(engine)) {
                    let local = self.local(ground);
                    self.carry_out(&mover, &target, vec![local], PATIENT, None, true).await;
                }
            }
        }
    }

    async fn call(&self, mover: &Mover) {
        let engine = self.random.below(self.field.count() as u64) as usize;
        let deadline = self.random.length(Duration::from_millis(50), Duration::from_secs(20));
        match self.random.below(12) {
            0 => self.ask_outside(mover, engine, deadline).await,
            1 => self.ask_the_past(mover, deadline).await,
            kind => {
                let Some(target) = self.field.target(engine) else {
                    return;
                };
                let reserve = |_| {
                    let writes = self.random.one_in(2);
                    self.field.reserve(engine, writes, &self.random)
                };
                let grounds = (0..self.random.between(1, BATCH_MAX)).filter_map(reserve);
                let locals: Vec<_> = grounds.map(|ground| self.local(ground)).collect();
                let cancel = (kind < 4).then(|| {
                    self.random.length(Duration::from_micros(1), Duration::from_millis(200))
                });
                let must_go_well = self.field.is_calm() && cancel.is_none();
                let is_patient = must_go_well || cancel.is_some();
                let deadline = if is_patient { PATIENT } else { deadline };
                self.carry_out(mover, &target, locals, deadline, cancel, must_go_well).await;
            }
        }
    }

    fn local(&self, ground: Ground) -> Local {
        let bytes = ground.range.len();
        let (direction, bytes) = match ground.writes {
            true => (Direction::Write, self.random.bytes(bytes)),
            false => (Direction::Read, vec![0xEE; bytes]),
        };
        Local { bytes, direction, remote: ground.address, ground: Some(ground) }
    }

    /// Addresses memory that is not registered: it must be refused, and nothing may change.
    async fn ask_outside(&self, mover: &Mover, engine: usize, deadline: Duration) {
        let Some(target) = self.field.target(engine) else {
            return;
        };
        let (remote, bytes) = self.field.outside(engine, &self.random);
        self.must_be_refused(mover, &target, remote, bytes, deadline).await;
    }

    /// Addresses an earlier life of an engine: it must be refused, and nothing may change in the
    /// present one.
    async fn ask_the_past(&self, mover: &Mover, deadline: Duration) {
        let Some(target) = self.field.past_target(&self.random) else {
            return;
        };
        let engine = self.random.below(self.field.count() as u64) as usize;
        let remote = self.field.memory_of(engine).address() + self.random.below(100_000);
        self.must_be_refused(mover, &target, remote, self.random.between(1, 50_000), deadline)
            .await;
    }

    async fn must_be_refused(
        &self,
        mover: &Mover,
        target: &ShardTarget,
        remote: u64,
        bytes: u64,
        deadline: Duration,
    ) {
        let direction = if self.random.one_in(2) { Direction::Read } else { Direction::Write };
        let local =
            Local { bytes: self.random.bytes(bytes as usize), direction, remote, ground: None };
        self.carry_out(mover, target, vec![local], deadline, None, false).await;
        self.field.compare_all();
    }

    /// Moves a batch and judges every request of it.
    async fn carry_out(
        &self,
        mover: &Mover,
        target: &ShardTarget,
        mut locals: Vec<Local>,
        deadline: Duration,
        cancel: Option<Duration>,
        must_go_well: bool,
    ) {
        let request = |local: &mut Local| TransferRequest {
            direction: local.direction,
            local: local.bytes.as_mut_ptr() as u64,
            remote: local.remote,
            bytes: local.bytes.len() as u64,
        };
        let requests: Vec<_> = locals.iter_mut().map(request).collect();
        *self.held.borrow_mut() = locals.iter().filter_map(|local| local.ground.clone()).collect();
        let (begun, frozen) = (self.world.now(), self.world.frozen_time(self.host));
        // SAFETY: the memory lives in `locals`, which is kept beyond the end of the batch; should
        // the task be dropped before, its host has died and the network has forgotten its
        // operations.
        let batch = match unsafe { mover.submit(target, &requests, deadline) } {
            Ok(batch) => batch,
            Err(error) => return self.world.violate(error.to_string()),
        };
        if let Some(after) = cancel {
            self.world.sleep(after).await;
            mover.cancel(&batch);
        }
        let watched = batch.clone();
        self.world.until(move || watched.is_over()).await;
        let frozen = self.world.frozen_time(self.host) - frozen;
        let took = (self.world.now() - begun).saturating_sub(frozen);
        let longest = cancel.map_or(deadline, |after| deadline.min(after + CANCELING_MAX)) + SLACK;
        self.world.check(took <= longest, || format!("A batch took {took:?} of {longest:?}"));
        let error = batch.outcome().err().map(|error| error.to_string()).unwrap_or_default();
        let states = (0..locals.len()).map(|index| batch.request(index).map(|found| found.state));
        for (local, state) in locals.iter_mut().zip(states) {
            self.judge(local, state, must_go_well, &error);
        }
        self.held.borrow_mut().clear();
        self.left.borrow_mut().extend(locals.into_iter().map(|local| local.bytes));
    }

    fn judge(
        &self,
        local: &mut Local,
        state: Option<TransferState>,
        must_go_well: bool,
        error: &str,
    ) {
        let completed = state == Some(TransferState::Completed);
        let mut tally = self.tally.get();
        tally.add(Tally { done: u64::from(completed), failed: u64::from(!completed), faults: 0 });
        self.tally.set(tally);
        self.world.note("request", self.host as u64, state.map_or(0, |state| state as u64));
        self.world.check(state.is_some_and(TransferState::is_final), || {
            "A request of a batch that is over is not final".to_owned()
        });
        match &local.ground {
            Some(ground) => {
                let is_present = self.field.is_present(ground);
                self.world.check(completed || !must_go_well || !is_present, || {
                    format!("Without a fault a request failed: {error}")
                });
                self.field.settle(ground, completed.then_some(&local.bytes));
            }
            None => self.world.check(!completed, || {
                "Memory that is not registered, or of an earlier life, was handed out".to_owned()
            }),
        }
        local.bytes.fill(LEFT);
    }
}
