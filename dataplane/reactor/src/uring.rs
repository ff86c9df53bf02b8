//! Operations on one io_uring per shard: queued, handed over in one system call per turn, waited for in the ring.

mod entry;
mod probe;
mod ring;
mod setup;

pub use probe::{Refusal, probe};
pub(crate) use ring::Ring;
