//! The topology of this host without an engine. Invariant: it is read at each call, and names of
//! NICs that are not there are left out, as Mooncake does.

use perigee_topology::{Matrix, Roots, TopologyError};
use std::env;

/// The matrix of a host about which nothing is known.
pub(super) const NOTHING: &str = "{}";

/// The matrix as JSON, narrowed down to `device_name`.
pub(super) fn describe(device_name: &str) -> Result<String, TopologyError> {
    let environment = |name: &str| env::var(name).ok();
    let matrix = Matrix::local_of_known(&Roots::system(), device_name, &environment)?;
    Ok(matrix.to_json())
}
