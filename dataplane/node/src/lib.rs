//! The node daemon: donates memory of its host to a cluster and reports how it is. Invariant: it
//! reads and writes no objects of its own; what it holds belongs to the master's clients.
#![forbid(unsafe_code)]

pub mod config;
mod daemon;
mod default_drain;
mod drain;
mod error;
mod introduction;
pub mod limits;
mod opening;
mod phase;
mod probe;
mod signals;
mod status_page;
mod stop_drain;
mod summary;

pub use config::{HttpPage, NodeConfig, NodeStart, StopDrain};
pub use daemon::run;
pub use default_drain::drain_by_default;
pub use drain::{DrainError, DrainJobs, Moved, Unlisted};
pub use error::NodeError;
pub use status_page::{StatusPage, StoreSlot};
