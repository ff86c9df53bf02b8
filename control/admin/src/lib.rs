//! The master's HTTP routes: health, metrics, keys, segments.
//!
//! Invariant: this crate never holds state of the master; every answer comes from one call of
//! [`ControlPlane`], so HTTP can be slow or away without touching the data plane.
#![forbid(unsafe_code)]

mod answer;
mod drains;
mod keys;
pub mod limits;
mod origin;
mod overview;
pub mod plane;
mod query;
mod quotas;
mod reporter;
mod routes;
mod segments;
mod server;
pub mod summary;

pub use plane::{ControlPlane, ReplicaPlace, SegmentInfo};
pub use server::{AdminHandle, AdminOptions, AdminServer};
