//! Measures every link between hosts, on all their NICs, and finds who is at fault.
//!
//! [`MeshServer`] answers measurements where an operator allows it; [`Mesh`] has all pairs of hosts
//! measured and [`judge`] says what is wrong, also by what was measured before ([`LinkBaseline`]).
//! The invariant: a server is measured by one at a time, for a bounded time, and sends nothing but
//! what the other end asked for in a session that it opened itself.
#![deny(unsafe_code)]

mod baseline;
mod budget;
mod client;
mod datagrams;
mod facts;
mod finding;
mod judgement;
mod limits;
mod line;
mod load;
mod message;
mod plan;
mod readings;
mod schedule;
mod server;
mod session;
mod socket;
mod station;
mod usual_file;

pub use baseline::{BaselineError, CheckedNic, LinkBaseline};
pub use client::MeshError;
pub use facts::{MeshHost, NicAddress, NicFacts};
pub use finding::{FindingKind, LinkFinding};
pub use judgement::{judge, sick_links};
pub use limits::{PORT, PROBES_MAX, STREAMS_MAX, WHOLE_LOAD_MAX};
pub use plan::LinkPlan;
pub use readings::{LinkReadings, LinkResult, LoadRate};
pub use server::MeshServer;
pub use station::{Mesh, Unheard};
pub use usual_file::usual_file;
