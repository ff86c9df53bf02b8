//! Moving slices over TCP, on the side that asks: small and blocking transfers on the caller's own connection, the others
//! on shards.

mod line;
mod link;
mod peer;
mod scatter;
mod upstream;

pub(crate) use line::{Call, Line};
pub(crate) use peer::{Order, Peers, Terms};
