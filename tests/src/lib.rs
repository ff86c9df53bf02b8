//! What system tests need: real programs on free loopback ports, their logs, HTTP, raw frames.
//! Invariant: nothing outlives its test, and every wait has a deadline.
#![deny(unsafe_code)]

pub mod cgroup;
pub mod cluster;
pub mod content;
pub mod deadline;
pub mod decoders;
pub mod http;
pub mod limits;
pub mod network;
pub mod noise;
#[cfg(feature = "store")]
pub mod objects;
pub mod program;
pub mod seccomp;
pub mod stranger;
pub mod wire;
