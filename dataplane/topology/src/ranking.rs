//! Which rails are near a memory location. Invariant: the only place that decides it; the matrix
//! and its explanation both read the same choices.

use crate::error::TopologyError;
use crate::gpu::Gpu;
use crate::host::Topology;
use crate::matrix::{Matrix, Rails};
use crate::place::{DevicePlace, Distance};
use crate::rdma::RdmaDevice;
use crate::selection::Selection;

/// Memory that can be sent or received.
#[derive(Debug, Clone)]
pub(crate) struct MemoryNode {
    /// `cpu:0`, `cuda:1`.
    pub(crate) name: String,
    kind: MemoryKind,
}

#[derive(Debug, Clone)]
enum MemoryKind {
    Node(u32),
    Gpu(DevicePlace),
}

/// One device as seen from one location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedDevice {
    /// Name of the device.
    pub device: String,
    /// How far it is.
    pub distance: Distance,
    /// True for the first list of the matrix.
    pub is_preferred: bool,
    /// Why, for people.
    pub reason: String,
}

impl Topology {
    /// Rails of every memory location among the selected devices.
    ///
    /// # Errors
    /// A device was named that this host does not have.
    pub fn matrix(&self, selection: &Selection) -> Result<Matrix, TopologyError> {
        let unknown = self.unknown_devices(selection);
        if unknown.is_empty() {
            return Ok(self.matrix_of_known(selection));
        }
        Err(TopologyError::UnknownDevices { unknown, existing: self.device_names() })
    }

    /// The same; names that this host does not have are ignored.
    #[must_use]
    pub fn matrix_of_known(&self, selection: &Selection) -> Matrix {
        let locations = locations(self, selection);
        let rails = locations.into_iter().map(|location| {
            let choices = choices(self, &location, selection);
            let names = |is_preferred: bool| {
                let of_kind = choices.iter().filter(|choice| choice.is_preferred == is_preferred);
                of_kind.map(|choice| choice.device.clone()).collect()
            };
            let rails = Rails { preferred: names(true), others: names(false) };
            (location.name, rails)
        });
        Matrix::of(rails)
    }
}

/// All locations of a host: NUMA nodes, then the GPUs this process sees, numbered as it sees them.
pub(crate) fn locations(topology: &Topology, selection: &Selection) -> Vec<MemoryNode> {
    let nodes = topology.nodes.iter().map(|node| MemoryNode {
        name: format!("cpu:{}", node.number),
        kind: MemoryKind::Node(node.number),
    });
    let gpus = selection.visible(&topology.gpus);
    let gpus = gpus.into_iter().map(|(index, gpu): (usize, &Gpu)| MemoryNode {
        name: format!("{}:{index}", gpu.vendor.prefix()),
        kind: MemoryKind::Gpu(gpu.place.clone()),
    });
    nodes.chain(gpus).collect()
}

/// All devices that may serve a location, preferred ones first, by name inside each group.
pub(crate) fn choices(
    topology: &Topology,
    location: &MemoryNode,
    selection: &Selection,
) -> Vec<RankedDevice> {
    let usable = topology.rdma.iter().filter(|device| is_used(device, selection));
    let measured: Vec<(&RdmaDevice, Distance)> =
        usable.map(|device| (device, distance(topology, location, device))).collect();
    let nearest = measured.iter().map(|(_, distance)| *distance).min();
    let mut choices: Vec<RankedDevice> = measured
        .into_iter()
        .map(|(device, distance)| choice(location, device, distance, nearest))
        .collect();
    choices.sort_by_key(|choice| !choice.is_preferred);
    choices
}

/// False for devices that are filtered out, and for those without a link unless named.
pub(crate) fn is_used(device: &RdmaDevice, selection: &Selection) -> bool {
    selection.allows(&device.name)
        && (device.has_usable_port() || selection.asked().contains(&device.name))
}

fn distance(topology: &Topology, location: &MemoryNode, device: &RdmaDevice) -> Distance {
    match &location.kind {
        MemoryKind::Node(node) => {
            topology.node_distance(Some(*node), topology.node_of(&device.place))
        }
        MemoryKind::Gpu(place) => topology.distance(place, &device.place),
    }
}

/// Memory of a node prefers the devices on that node, a GPU those nearest to it wherever they are.
fn choice(
    location: &MemoryNode,
    device: &RdmaDevice,
    distance: Distance,
    nearest: Option<Distance>,
) -> RankedDevice {
    let is_preferred = match location.kind {
        MemoryKind::Node(_) => distance.is_local(),
        MemoryKind::Gpu(_) => Some(distance) == nearest,
    };
    let reason = match (is_preferred, nearest) {
        (true, _) if distance.is_local() => distance.to_string(),
        (true, _) => format!("{distance}, and none is nearer"),
        (false, Some(nearest)) if nearest.is_local() => format!("{distance}; others: {nearest}"),
        (false, _) => distance.to_string(),
    };
    RankedDevice { device: device.name.clone(), distance, is_preferred, reason }
}
