//! The topology of this host without an engine. Invariant: it is read anew at each call, and names
//! of NICs that are not there are left out, as Mooncake does.

use perigee_topology::{Matrix, Roots, Selection, Topology, TopologyError};
use std::env;
use std::path::Path;

/// File with a matrix that takes the place of the one found; an empty value counts as none.
const CUSTOM_VARIABLE: &str = "MC_CUSTOM_TOPO_JSON";

/// The matrix of a host about which nothing is known.
pub(super) const NOTHING: &str = "{}";

/// The matrix as JSON, narrowed down to `device_name`.
pub(super) fn describe(device_name: &str) -> Result<String, TopologyError> {
    let selection = Selection::new(device_name, None, &|name| env::var(name).ok())?;
    let custom = env::var_os(CUSTOM_VARIABLE).filter(|path| !path.is_empty());
    let matrix = match custom {
        Some(path) => Matrix::from_file(Path::new(&path))?.restricted_to(&selection),
        None => Topology::discover(&Roots::system()).matrix_of_known(&selection),
    };
    Ok(matrix.to_json())
}
