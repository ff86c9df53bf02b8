//! A listening port of a shard, once for all that listen on shards: the master's RPC, data ports of
//! segments, engines.
//!
//! [`Port`] accepts, keeps the table of connections and stops; a [`Service`] says what happens on
//! one of them. [`Frames`] reads and writes frames on a stream, with one deadline over a whole
//! frame and a [`FrameBudget`] over all unfinished frames of a process. [`greet`] and [`connect`]
//! are the two sides of the greeting. Everything is generic over `Environment`, so the simulation
//! runs it, too.
//!
//! The invariant: whatever peers send or leave out, what they hold here is bounded in bytes, in
//! time and in connections.
#![forbid(unsafe_code)]

mod connection;
mod frame_budget;
mod frames;
mod greeting;
mod limits;
mod port;
mod signal;
mod table;

pub use connection::Connection;
pub use frame_budget::{FrameBudget, HeldBytes};
pub use frames::Frames;
pub use greeting::{connect, greet};
pub use limits::{FRAME_DEADLINE, GREETING_DEADLINE};
pub use port::{Port, PortOptions, Service};
pub use signal::WakerList;
