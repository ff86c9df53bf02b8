//! Why the rails are what they are. Invariant: data only, taken from the same choices that make the
//! matrix; its printer decides how it looks.

use crate::gid::choice::{RankedGid, rank};
use crate::host::Topology;
use crate::ranking::{self, RankedDevice};
use crate::rdma::RdmaDevice;
use crate::selection::Selection;

/// Why each device is used, or not, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// All RDMA devices by name.
    pub devices: Vec<DeviceNote>,
    /// All memory locations in the order of the host.
    pub locations: Vec<LocationNote>,
}

/// One RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNote {
    /// Its name.
    pub device: String,
    /// Why it is in no list; `None` if it is used.
    pub left_out: Option<String>,
    /// GIDs of all its ports, best first per port.
    pub gids: Vec<RankedGid>,
}

/// One memory location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocationNote {
    /// `cpu:0`, `cuda:1`.
    pub location: String,
    /// Devices, preferred ones first.
    pub choices: Vec<RankedDevice>,
}

impl Topology {
    /// Why each device is ranked as it is.
    #[must_use]
    pub fn explain(&self, selection: &Selection) -> Explanation {
        Explanation::of(self, selection)
    }
}

impl Explanation {
    pub(crate) fn of(topology: &Topology, selection: &Selection) -> Self {
        let devices = topology.rdma.iter().map(|device| DeviceNote {
            device: device.name.clone(),
            left_out: left_out(device, selection),
            gids: device.ports.iter().flat_map(|port| rank(&port.gids)).collect(),
        });
        let locations = ranking::locations(topology, selection).into_iter();
        let locations = locations.map(|location| LocationNote {
            choices: ranking::choices(topology, &location, selection),
            location: location.name,
        });
        Self { devices: devices.collect(), locations: locations.collect() }
    }
}

fn left_out(device: &RdmaDevice, selection: &Selection) -> Option<String> {
    if let Some(objection) = selection.objection(&device.name) {
        return Some(objection);
    }
    if ranking::is_used(device, selection) {
        return None;
    }
    let states =
        device.ports.iter().map(|port| format!("port {} is {}", port.number, port.state_text));
    let states: Vec<String> = states.collect();
    Some(format!("no active port: {}", states.join(", ")))
}
