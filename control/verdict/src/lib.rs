//! Who is at fault in a cluster, by elimination: links between NICs of hosts that are well or sick
//! go in, cables, NICs, hosts and switches come out.
//!
//! Pure: no clock, no I/O. The invariant: each sick link is explained by exactly one
//! culprit, and none is named for a link that is well.
#![forbid(unsafe_code)]

mod culprit;
mod elimination;
mod link;

pub use culprit::{Culprit, CulpritKind};
pub use elimination::culprits;
pub use link::{JudgedLink, NicOfHost, Switches};
