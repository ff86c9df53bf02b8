//! The HTTP metadata service that transfer engines register with.
//!
//! Invariant: the last registration of a name wins, so a client that crashed and came back under
//! its old name is found at its new address. A writer that must not overwrite another one's record
//! sends a condition (`If-Match`, `If-None-Match`).
#![forbid(unsafe_code)]

pub mod config;
mod key;
pub mod limits;
pub mod remote;
mod routes;
mod server;
mod store;

pub use server::{MetadataHandle, MetadataServer};
pub use store::{Change, Condition, MetadataStore, WriteRefusal};
