//! Loads the eBPF probes, attaches what this host allows, and reads what they counted.
//!
//! [`Probes::load`] never fails as a whole: each [`Feature`] is on, or off with a reason and a
//! remedy. The invariant: every attachment is a link of this process, so when it dies, however it
//! dies, nothing stays attached.
#![forbid(unsafe_code)]

mod attachment;
mod btf;
mod capability;
mod error;
mod feature;
mod groups;
mod limits;
mod object;
mod probes;
mod reading;

pub use capability::{Capability, held_capabilities};
pub use error::ProbeError;
pub use feature::{Feature, FeatureState};
pub use object::is_built;
pub use perigee_probe_types as value;
pub use probes::Probes;
pub use reading::{BlockReading, DropReading, NicReading, ProgramCost, TcpReading};
