//! The store with its whole cluster in one process: master, nodes and clients on real sockets.
//! Invariant: each test starts what it needs, on ports that the system chooses.
#![allow(clippy::unwrap_used, reason = "tests")]

mod calls;
mod cluster;
mod devices;
mod disk_return;
mod disks;
mod drains;
mod forged;
mod larger;
mod membership;
mod ports;
mod rails;
mod restart;
mod staged;
mod tasks;
mod tenants;
mod tier;
mod unreachable;
mod vanishing;
