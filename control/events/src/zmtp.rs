//! ZeroMQ's wire protocol, ZMTP 3.0 without security: what a publisher and a router need of it.
//! Invariant: a peer is read at most a small frame at a time, and has a deadline for its greeting.

pub(crate) mod frame;
pub(crate) mod greeting;
pub(crate) mod peer;
