//! What is played in a world, and how a run is reported. Invariant: a failure names its seed, and
//! the seed is all that is needed to see it again.

mod disk;
mod engine;
mod faults;
mod store;
mod transfer;

use crate::world::World;
use std::any::Any;
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

/// Plays that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Objects between clients and segment servers.
    Transfer,
    /// Registered memory of engines.
    Engine,
    /// Master, nodes and clients together.
    Store,
    /// The same with tenants, each with a quota.
    Tenants,
    /// The log of a disk and its user.
    Disk,
}

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Hash over every step.
    pub hash: u64,
    /// Number of steps.
    pub steps: u64,
    /// Time that passed in the run.
    pub time: Duration,
    /// What clients did.
    pub calls: Tally,
}

/// Calls by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// As asked.
    pub done: u64,
    /// With an error that a fault explains.
    pub failed: u64,
    /// Faults that were put in.
    pub faults: u64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.done += other.done;
        self.failed += other.failed;
        self.faults += other.faults;
    }
}

/// A run that broke a promise.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Failure {
    /// What was played.
    pub scenario: Scenario,
    /// From which seed.
    pub seed: u64,
    /// The promise.
    pub what: String,
    /// The last steps before, one a line.
    pub steps: String,
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { scenario, seed, what, steps } = self;
        let name = scenario.name();
        write!(
            formatter,
            "{steps}{name} with seed {seed}: {what}\nSee it again: cargo run -p perigee-simulation -- \
             --scenario {name} --seed {seed}"
        )
    }
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Transfer, Self::Engine, Self::Store, Self::Tenants, Self::Disk];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Engine => "engine",
            Self::Store => "store",
            Self::Tenants => "tenants",
            Self::Disk => "disk",
        }
    }

    /// The one with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    /// Plays it once.
    ///
    /// # Errors
    /// A promise was broken or the code under test panicked.
    pub fn play(self, seed: u64) -> Result<Report, Box<Failure>> {
        let world = World::new(seed);
        let played = catch_unwind(AssertUnwindSafe(|| self.perform(&world)));
        let played = played.unwrap_or_else(|panic| Err(format!("Panic: {}", said(&*panic))));
        let (hash, steps) = world.trace_hash();
        let (time, last_steps) = (world.now(), world.last_steps());
        world.end();
        match played {
            Ok(calls) => Ok(Report { hash, steps, time, calls }),
            Err(what) => Err(Box::new(Failure { scenario: self, seed, what, steps: last_steps })),
        }
    }

    fn perform(self, world: &Rc<World>) -> Result<Tally, String> {
        match self {
            Self::Transfer => transfer::play(world),
            Self::Engine => engine::play(world),
            Self::Store => store::play(world, false),
            Self::Tenants => store::play(world, true),
            Self::Disk => disk::play(world),
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}
