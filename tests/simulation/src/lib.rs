//! The data plane and the master under a seed: the second implementation of `Environment`.
//!
//! A [`World`] has virtual time, tasks on simulated hosts and a network that delays, cuts and
//! breaks what they send. The code under test is the production code, generic over `Environment`.
//! Invariant: a run is a function of its seed alone, so a seed that fails once fails again.

mod disk;
mod environment;
mod events;
mod files;
mod limits;
mod mailbox;
mod network;
mod random;
pub mod scenario;
mod slot;
mod tasks;
mod trace;
mod world;

pub use disk::DiskBehaviour;
pub use environment::{SimulatedEnvironment, SimulatedListener, SimulatedStream};
pub use files::{SimulatedFile, SimulatedFiles};
pub use mailbox::SimulatedMailbox;
pub use network::{HostId, LinkConditions};
pub use random::Random;
pub use world::{Leftovers, Sleep, Until, World};
