//! The handshake between two engines: one frame there, one frame back, on a TCP connection.
//!
//! Invariant: neither side waits without a deadline, and a peer that says nothing, says too much
//! or stops in the middle costs the other side one bounded entry in a table.

pub(crate) mod client;
pub mod frame;
pub(crate) mod handler;
mod listener;
mod server;
mod session;

pub use client::HandshakeClient;
pub use handler::Handler;
pub use listener::BoundServer;
pub use server::HandshakeServer;
