//! All that is known of one host. Invariant: a value, read once; it answers every question without
//! looking at the host again.

use crate::disk::{self, Disk};
use crate::gpu::{self, Gpu};
use crate::nic::{self, Nic};
use crate::numa::{self, NumaNode};
use crate::place::{DevicePlace, Distance};
use crate::rdma::{self, RdmaDevice};
use crate::roots::Roots;
use crate::selection::Selection;

/// NICs, GPUs, disks and NUMA nodes of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// RDMA devices by name.
    pub rdma: Vec<RdmaDevice>,
    /// Network interfaces by name, virtual ones included.
    pub nics: Vec<Nic>,
    /// GPUs in bus order.
    pub gpus: Vec<Gpu>,
    /// Disks by name.
    pub disks: Vec<Disk>,
    /// NUMA nodes by number; at least one.
    pub nodes: Vec<NumaNode>,
}

impl Topology {
    /// Reads a host. What is missing or broken is left out.
    #[must_use]
    pub fn discover(roots: &Roots) -> Self {
        Self {
            rdma: rdma::read(roots.sys()),
            nics: nic::read(roots.sys()),
            gpus: gpu::read(roots),
            disks: disk::read(roots.sys()),
            nodes: numa::read(roots.sys()),
        }
    }

    /// Names the selection asks for and this host does not have.
    #[must_use]
    pub fn unknown_devices(&self, selection: &Selection) -> Vec<String> {
        let existing = self.device_names();
        let asked = selection.asked().into_iter();
        asked.filter(|name| !existing.contains(name)).collect()
    }

    /// RDMA devices, then network interfaces but the loopback one.
    #[must_use]
    pub fn device_names(&self) -> Vec<String> {
        let rdma = self.rdma.iter().map(|device| device.name.clone());
        let nics = self.nics.iter().filter(|nic| nic.kind != nic::NicKind::Loopback);
        rdma.chain(nics.map(|nic| nic.name.clone())).collect()
    }

    /// The NUMA node of a place. A host with a single node has everything on it.
    #[must_use]
    pub fn node_of(&self, place: &DevicePlace) -> Option<u32> {
        match self.nodes.as_slice() {
            [only] => Some(only.number),
            _ => place.node,
        }
    }

    /// How far two places are apart.
    #[must_use]
    pub fn distance(&self, one: &DevicePlace, other: &DevicePlace) -> Distance {
        let shared = one.pci.as_ref().zip(other.pci.as_ref());
        shared
            .and_then(|(one, other)| Distance::of_paths(one, other))
            .unwrap_or_else(|| self.node_distance(self.node_of(one), self.node_of(other)))
    }

    pub(crate) fn node_distance(&self, one: Option<u32>, other: Option<u32>) -> Distance {
        match (one, other) {
            (Some(one), Some(other)) if one == other => Distance::SameNode,
            (Some(one), Some(other)) => {
                Distance::CrossNode { node_distance: numa::distance(&self.nodes, one, other) }
            }
            _ => Distance::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
