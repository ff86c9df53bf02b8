//! Engines that let others into their memory, and the lives they have had.
//! Invariant: an engine that begins again has the same memory at the same addresses, so that only
//! its epoch tells.

use super::memory::Memory;
use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::world::World;
use perigee_engine::{Leaving, ShardServer, ShardTarget};
use perigee_schemas::Identity;
use perigee_shard::Environment;
use std::cell::{Ref, RefCell};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

const PORT: u16 = 7100;
const MEMORY_BYTES: (u64, u64) = (200_000, 800_000);
/// Bytes between buffers that are never registered.
const GAP_BYTES: usize = 64;
/// Earlier lives that are remembered.
const PAST_MAX: usize = 20;
/// Longest that a buffer takes to leave: its users are cut off at once.
const LEAVING_MAX: Duration = Duration::from_secs(1);
/// How long a buffer is watched after it has left.
const WATCH: Duration = Duration::from_secs(2);

/// A registered part of the memory.
struct Buffer {
    range: Range<usize>,
    is_registered: bool,
    /// Counts how often it has left.
    departures: u64,
}

struct Engine {
    host: HostId,
    life: u64,
    target: Option<ShardTarget>,
    serving: Option<Rc<ShardServer<SimulatedEnvironment>>>,
    memory: Memory,
    buffers: Vec<Buffer>,
}

/// A part of an engine's memory that a caller addresses.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    pub(super) engine: usize,
    pub(super) range: Range<usize>,
    pub(super) address: u64,
    pub(super) writes: bool,
    /// Which life and which stay of the buffer are meant.
    life: u64,
    buffer: usize,
    departures: u64,
}

/// All engines.
pub(super) struct Field {
    world: Rc<World>,
    random: Random,
    engines: RefCell<Vec<Engine>>,
    past: RefCell<Vec<ShardTarget>>,
    is_calm: bool,
    flips: bool,
}

impl Field {
    pub(super) fn new(
        world: &Rc<World>,
        engines: usize,
        is_calm: bool,
        flips: bool,
    ) -> Result<Self, String> {
        let random = world.fork_random();
        let made = (0..engines).map(|_| Engine::new(world.add_host(), &random));
        Ok(Self {
            world: world.clone(),
            engines: RefCell::new(made.collect::<Result<_, _>>()?),
            random,
            past: RefCell::default(),
            is_calm,
            flips,
        })
    }

    pub(super) fn is_calm(&self) -> bool {
        self.is_calm
    }

    pub(super) fn flips(&self) -> bool {
        self.flips
    }

    pub(super) fn hosts(&self) -> Vec<HostId> {
        self.engines.borrow().iter().map(|engine| engine.host).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.engines.borrow().len()
    }

    pub(super) fn begin_all(&self) {
        let mut engines = self.engines.borrow_mut();
        engines.iter_mut().for_each(|engine| engine.begin(&self.world, &self.random));
    }

    /// An engine's process restarts, if this is the host of one.
    pub(super) fn begin_again(&self, host: HostId) {
        self.compare_all();
        let mut engines = self.engines.borrow_mut();
        let Some(engine) = engines.iter_mut().find(|engine| engine.host == host) else {
            return;
        };
        if let Some(target) = engine.target.take() {
            let mut past = self.past.borrow_mut();
            if past.len() == PAST_MAX {
                past.remove(0);
            }
            past.push(target);
        }
        engine.life += 1;
        engine.memory.renew();
        engine.begin(&self.world, &self.random);
    }

    pub(super) fn stop_all(&self) {
        let engines = self.engines.borrow();
        engines.iter().filter_map(|engine| engine.serving.as_ref()).for_each(|found| found.stop());
    }

    /// Drops what refers to the world.
    pub(super) fn forget(&self) {
        self.engines.borrow_mut().clear();
    }

    pub(super) fn compare_all(&self) {
        for engine in self.engines.borrow().iter() {
            if let Some(wrong) = engine.memory.first_wrong() {
                self.world.violate(format!("Byte {wrong} changed, and no caller addressed it"));
            }
        }
    }

    pub(super) fn target(&self, engine: usize) -> Option<ShardTarget> {
        self.engines.borrow()[engine].target.clone()
    }

    /// A life of an engine that is over.
    pub(super) fn past_target(&self, random: &Random) -> Option<ShardTarget> {
        let past = self.past.borrow();
        (!past.is_empty()).then(|| random.pick(&past).clone())
    }

    /// Reserves a part of a buffer that is free now.
    pub(super) fn reserve(&self, engine: usize, writes: bool, random: &Random) -> Option<Ground> {
        let mut engines = self.engines.borrow_mut();
        let found = &mut engines[engine];
        for _ in 0..20 {
            let number = random.below(found.buffers.len() as u64) as usize;
            let buffer = &found.buffers[number];
            let first = random.between(buffer.range.start as u64, buffer.range.end as u64 - 1);
            let most = (buffer.range.end as u64 - first).min(1 << random.below(18));
            let range = first as usize..(first + random.between(1, most)) as usize;
            if buffer.is_registered && found.memory.hold(range.clone(), writes) {
                return Some(Ground {
                    engine,
                    address: found.memory.address() + range.start as u64,
                    range,
                    writes,
                    life: found.life,
                    buffer: number,
                    departures: buffer.departures,
                });
            }
        }
        None
    }

    /// A range that touches bytes which are not registered.
    pub(super) fn outside(&self, engine: usize, random: &Random) -> (u64, u64) {
        let engines = self.engines.borrow();
        let found = &engines[engine];
        let buffer = random.pick(&found.buffers);
        let from = buffer.range.end as u64 - random.below(buffer.range.len().min(1000) as u64);
        let bytes = buffer.range.end as u64 - from + random.between(1, GAP_BYTES as u64);
        (found.memory.address() + from, bytes)
    }

    /// Whether a ground is as it was: the same life and the same stay of its buffer.
    pub(super) fn is_present(&self, ground: &Ground) -> bool {
        let engines = self.engines.borrow();
        let engine = &engines[ground.engine];
        engine.life == ground.life && engine.buffers[ground.buffer].departures == ground.departures
    }

    /// The request for a ground is over. `bytes` are what was moved, if it completed.
    pub(super) fn settle(&self, ground: &Ground, bytes: Option<&[u8]>) {
        let is_present = self.is_present(ground);
        let memory = &mut self.engines.borrow_mut()[ground.engine];
        if memory.life != ground.life {
            return;
        }
        let memory = &mut memory.memory;
        let range = ground.range.clone();
        memory.let_go(range.clone(), ground.writes);
        match bytes {
            Some(bytes) if is_present && ground.writes => {
                let is_there = memory.written(range, bytes);
                self.world.check(is_there, || "A completed write left other bytes".to_owned());
            }
            Some(bytes) if is_present => {
                let is_right = memory.is_right(range, bytes);
                self.world.check(is_right, || "A read handed out other bytes".to_owned());
            }
            _ if ground.writes => memory.taint(range),
            _ => {}
        }
    }

    /// Takes a buffer out, checks that it is not touched any more, and lets it in again.
    pub(super) async fn take_one_out(&self, random: &Random) {
        let engine = random.below(self.count() as u64) as usize;
        let number = random.below(self.engines.borrow()[engine].buffers.len() as u64) as usize;
        let Some((host, life, leaving)) = self.begin_leaving(engine, number) else {
            return;
        };
        let (begun, frozen) = (self.world.now(), self.world.frozen_time(host));
        let leaving = Rc::new(leaving);
        let watched = leaving.clone();
        self.world.until_at_most(10 * LEAVING_MAX, move || watched.is_out()).await;
        if self.engines.borrow()[engine].life != life {
            return;
        }
        let took = self.world.now() - begun;
        let frozen = self.world.frozen_time(host) - frozen;
        let is_late = took > LEAVING_MAX && frozen.is_zero();
        self.world.check(!is_late, || format!("A buffer left after {took:?}"));
        if !leaving.is_out() {
            // The process stands still; this engine is not played with any more.
            return;
        }
        let range = self.engines.borrow()[engine].buffers[number].range.clone();
        let byte = random.next() as u8;
        self.engines.borrow_mut()[engine].memory.fill(range.clone(), byte);
        self.world.sleep(WATCH).await;
        let mut engines = self.engines.borrow_mut();
        let found = &mut engines[engine];
        if found.life == life {
            let is_untouched = found.memory.bytes()[range].iter().all(|found| *found == byte);
            self.world.check(is_untouched, || "A buffer that had left was written to".to_owned());
            found.register(&self.world, number);
        }
    }

    fn begin_leaving(&self, engine: usize, number: usize) -> Option<(HostId, u64, Leaving)> {
        let mut engines = self.engines.borrow_mut();
        let found = &mut engines[engine];
        let address = found.memory.address() + found.buffers[number].range.start as u64;
        let serving = found.serving.as_ref()?;
        let leaving = serving.unregister(address).ok()?;
        found.buffers[number].is_registered = false;
        found.buffers[number].departures += 1;
        Some((found.host, found.life, leaving))
    }

    /// What a caller's process held when it died may have changed or not.
    pub(super) fn abandon(&self, grounds: &[Ground]) {
        grounds.iter().for_each(|ground| self.settle(ground, None));
    }

    pub(super) fn memory_of(&self, engine: usize) -> Ref<'_, Memory> {
        Ref::map(self.engines.borrow(), |engines| &engines[engine].memory)
    }
}

impl Engine {
    fn new(host: HostId, random: &Random) -> Result<Self, String> {
        let bytes = random.between(MEMORY_BYTES.0, MEMORY_BYTES.1) as usize;
        let mut buffers = Vec::new();
        let mut first = GAP_BYTES;
        while first + GAP_BYTES < bytes {
            let most = (bytes - first - GAP_BYTES) as u64;
            let end = first + random.between(1, most.min(1 << random.between(8, 19))) as usize;
            buffers.push(Buffer { range: first..end, is_registered: false, departures: 0 });
            first = end + GAP_BYTES;
        }
        let memory = Memory::new(bytes)?;
        Ok(Self { host, life: 0, target: None, serving: None, memory, buffers })
    }

    fn begin(&mut self, world: &Rc<World>, random: &Random) {
        let environment = world.environment(self.host);
        let life = Identity(u128::from(random.next()));
        let port = SocketAddr::new(environment.address(), PORT);
        let server = match ShardServer::listen(&environment, port, life) {
            Ok(server) => Rc::new(server),
            Err(error) => return world.violate(error.to_string()),
        };
        self.target = Some(ShardTarget::new(server.address(), life));
        self.serving = Some(server.clone());
        environment.spawn(async move { server.serve().await });
        (0..self.buffers.len()).for_each(|number| self.register(world, number));
    }

    fn register(&mut self, world: &World, number: usize) {
        let buffer = &mut self.buffers[number];
        let address = self.memory.address() + buffer.range.start as u64;
        buffer.is_registered = true;
        let Some(server) = &self.serving else {
            return;
        };
        // SAFETY: the memory belongs to `self`, which lives until the world has ended.
        let registered = unsafe { server.register(address, buffer.range.len() as u64) };
        if let Err(error) = registered {
            world.violate(error.to_string());
        }
    }
}
