//! Which of this host's devices become rails. Invariant: the argument, the variables and the user's
//! own matrix mean the same for every user of rails.

use crate::rail::RailDevice;
use perigee_topology::{Matrix, Roots, Topology, TopologyError};

/// The devices of this host that a `device_name` argument, the `MC_*` filters and the matrix of
/// `MC_CUSTOM_TOPO_JSON` allow; at least one.
///
/// # Errors
/// The argument or the file cannot be read, they name what this host does not have, or leave
/// nothing.
pub fn host_devices(
    device_name: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<RailDevice>, TopologyError> {
    devices_of(&Roots::system(), device_name, environment)
}

fn devices_of(
    roots: &Roots,
    device_name: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<RailDevice>, TopologyError> {
    let matrix = Matrix::local(roots, device_name, None, environment)?;
    let topology = Topology::discover(roots);
    let device = |name: String| {
        let found = topology.rdma.iter().find(|device| device.name == name);
        let node = found.and_then(|device| device.place.node);
        RailDevice { name, node }
    };
    let devices: Vec<RailDevice> = matrix.devices().into_iter().map(device).collect();
    match devices.is_empty() {
        true => Err(TopologyError::NothingLeft { existing: topology.device_names() }),
        false => Ok(devices),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_topology::{CUSTOM_MATRIX_VARIABLE, fixture};

    fn names(devices: Result<Vec<RailDevice>, TopologyError>) -> Vec<String> {
        let devices = devices.unwrap_or_default().into_iter();
        devices.map(|device| device.name).collect()
    }

    #[test]
    fn devices_that_the_users_matrix_leaves_out_become_no_rails() {
        let folder = tempfile::tempdir().unwrap();
        let roots = fixture::virtual_machine(folder.path()).unwrap().roots();
        let path = folder.path().join("matrix.json");
        std::fs::write(&path, r#"{"cpu:0": [["rxe1"], []]}"#).unwrap();
        let custom = |name: &str| {
            let path = path.to_str().map(str::to_owned);
            path.filter(|_| name == CUSTOM_MATRIX_VARIABLE)
        };
        assert_eq!(names(devices_of(&roots, "", &|_| None)), ["rxe0", "rxe1"]);
        assert_eq!(names(devices_of(&roots, "", &custom)), ["rxe1"]);
        let none = devices_of(&roots, "rxe0", &custom).unwrap_err();
        assert!(none.to_string().contains("No RDMA device is left"), "{none}");
    }
}
