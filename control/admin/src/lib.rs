//! The master's HTTP routes: health, metrics, keys, segments.
//!
//! Invariant: this crate never holds state of the master; every answer comes from one call of
//! [`ControlPlane`], or from what agents have reported here, so HTTP can be slow or away without
//! touching the data plane.
#![forbid(unsafe_code)]

mod answer;
mod cluster;
mod drains;
mod key_events;
pub mod key_report;
mod keys;
pub mod limits;
mod listing;
pub mod master_view;
mod origin;
mod overview;
pub mod parameters;
mod query;
mod quotas;
mod reads;
mod reporter;
mod routes;
mod segments;
mod server;
mod shared;
pub mod summary;
mod tenants;

pub use master_view::{
    AdminRefusal, ControlPlane, ObjectInfo, ReplicaPlace, SegmentInfo, SegmentText,
};
pub use server::{AdminHandle, AdminOptions, AdminServer};
