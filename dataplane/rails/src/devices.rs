//! Which of this host's devices become rails. Invariant: the argument and the variables mean the same for every user of
//! rails.

use crate::rail::RailDevice;
use perigee_topology::{Roots, Selection, Topology, TopologyError};

/// The devices of this host that a `device_name` argument and the `MC_*` filters allow.
///
/// # Errors
/// The argument cannot be read, or names what this host does not have.
pub fn host_devices(device_name: &str) -> Result<Vec<RailDevice>, TopologyError> {
    let variable = |name: &str| std::env::var(name).ok();
    let selection = Selection::new(device_name, None, &variable)?;
    let topology = Topology::discover(&Roots::system());
    let matrix = topology.matrix(&selection)?;
    let device = |name: String| {
        let found = topology.rdma.iter().find(|device| device.name == name);
        let node = found.and_then(|device| device.place.node);
        RailDevice { name, node }
    };
    Ok(matrix.devices().into_iter().map(device).collect())
}
