//! Operations on one io_uring per shard: queued, handed over in one system call per turn, waited
//! for in the ring.

mod entry;
pub(crate) mod probe;
mod registered;
pub(crate) mod ring;
mod sends;
mod setup;

pub use probe::{UringUnavailable, probe};
