//! Who is at fault in a cluster, by elimination: links between NICs of hosts that are well or sick
//! go in, cables, NICs, hosts and switches come out.
//!
//! Pure: times are passed in, no I/O. The invariant: each sick link is explained by exactly one
//! culprit, and none is named for a link that is well.
#![forbid(unsafe_code)]

mod board;
mod cluster;
mod culprit;
mod elimination;
pub mod limits;
mod link;
mod report;

pub use board::{ClusterBoard, ReportRefusal};
pub use cluster::{
    ClusterLink, ClusterVerdict, JudgedHost, NamedCulprit, SilentHost, VERDICT_VERSION,
};
pub use culprit::{Culprit, CulpritKind};
pub use elimination::culprits;
pub use link::{JudgedLink, NicOfHost, Switches};
pub use report::{AgentReport, ReportedLink, ReportedNic, ReportedSuspect};
