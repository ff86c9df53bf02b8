//! Which rails are near a memory location. Invariant: the only place that decides it; the matrix
//! and its explanation both read the same choices.

use crate::gpu::Gpu;
use crate::host::Topology;
use crate::place::{Distance, Place};
use crate::rdma::RdmaDevice;
use crate::selection::Selection;

/// Memory that can be sent or received.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    /// `cpu:0`, `cuda:1`.
    pub(crate) name: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Node(u32),
    Gpu(Place),
}

/// One device as seen from one location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Name of the device.
    pub device: String,
    /// How far it is.
    pub distance: Distance,
    /// True for the first list of the matrix.
    pub is_preferred: bool,
    /// Why, for people.
    pub reason: String,
}

/// All locations of a host: NUMA nodes, then the GPUs this process sees, numbered as it sees them.
pub(crate) fn locations(topology: &Topology, selection: &Selection) -> Vec<Location> {
    let nodes = topology.nodes.iter().map(|node| Location {
        name: format!("cpu:{}", node.number),
        kind: Kind::Node(node.number),
    });
    let gpus = selection.visible(&topology.gpus);
    let gpus = gpus
        .into_iter()
        .map(|(index, gpu): (usize, &Gpu)| Location {
            name: format!("{}:{index}", gpu.vendor.prefix()),
            kind: Kind::Gpu(gpu.place.clone()),
        });
    nodes.chain(gpus).collect()
}

/// All devices that may serve a location, preferred ones first, by name inside each group.
pub(crate) fn choices(
    topology: &Topology,
    location: &Location,
    selection: &Selection,
) -> Vec<Choice> {
    let usable = topology
        .rdma
        .iter()
        .filter(|device| is_used(device, selection));
    let measured: Vec<(&RdmaDevice, Distance)> = usable
        .map(|device| (device, distance(topology, location, device)))
        .collect();
    let nearest = measured.iter().map(|(_, distance)| *distance).min();
    let mut choices: Vec<Choice> = measured
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

fn distance(topology: &Topology, location: &Location, device: &RdmaDevice) -> Distance {
    match &location.kind {
        Kind::Node(node) => topology.node_distance(Some(*node), topology.node_of(&device.place)),
        Kind::Gpu(place) => topology.distance(place, &device.place),
    }
}

/// Memory of a node prefers the devices on that node, a GPU those nearest to it wherever they are.
fn choice(
    location: &Location,
    device: &RdmaDevice,
    distance: Distance,
    nearest: Option<Distance>,
) -> Choice {
    let is_preferred = match location.kind {
        Kind::Node(_) => distance.is_local(),
        Kind::Gpu(_) => Some(distance) == nearest,
    };
    let reason = match (is_preferred, nearest) {
        (true, _) if distance.is_local() => distance.to_string(),
        (true, _) => format!("{distance}, and none is nearer"),
        (false, Some(nearest)) if nearest.is_local() => format!("{distance}; others: {nearest}"),
        (false, _) => distance.to_string(),
    };
    Choice {
        device: device.name.clone(),
        distance,
        is_preferred,
        reason,
    }
}
