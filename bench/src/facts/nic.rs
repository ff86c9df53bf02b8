//! Network cards, as the topology crate reads them. Invariant: interfaces that are software only
//! are left out, except loopback, which carries the bytes of every run on one machine.

use std::path::Path;

use perigee_topology::{NicKind, OperState, Roots, Topology};
use serde::{Deserialize, Serialize};

/// One network card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nic {
    /// Name in the system.
    pub(crate) name: String,
    /// `ethernet`, `rdma` or `loopback`.
    pub(crate) kind: String,
    /// Speed of the link in Mb/s; `None` if the system does not tell.
    pub(crate) link_mbps: Option<u64>,
    /// Largest packet in bytes; `None` for RDMA devices, whose Ethernet side has it.
    pub(crate) mtu_bytes: Option<u64>,
    /// Memory domain it hangs on; `None` if the system does not tell.
    pub(crate) numa_node: Option<u64>,
    /// `up`, `down` or `unknown`; of an RDMA device, the kernel's text.
    pub(crate) state: String,
    /// Firmware, if the system tells.
    pub(crate) firmware: String,
}

/// A fact as a line shows it.
pub(super) fn or_dash(word: &str) -> &str {
    if word.is_empty() { "-" } else { word }
}

impl Nic {
    /// One line for people.
    pub(super) fn line(&self) -> String {
        let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
        let firmware = if self.firmware.is_empty() {
            String::new()
        } else {
            format!(", firmware {}", self.firmware)
        };
        format!(
            "nic: {} {}, {} Mb/s, MTU {}, NUMA {}, {}{firmware}",
            self.name,
            self.kind,
            number(self.link_mbps),
            number(self.mtu_bytes),
            number(self.numa_node),
            or_dash(&self.state),
        )
    }
}

/// All cards under `root`, by kind and name.
pub(super) fn read_all(root: &Path) -> Vec<Nic> {
    let roots = Roots::new(root.join("sys"), root.join("proc"));
    let topology = Topology::discover(&roots);
    let ethernet = topology.nics.iter().filter_map(|nic| {
        let kind = match nic.kind {
            NicKind::Physical | NicKind::Bond => "ethernet",
            NicKind::Loopback => "loopback",
            NicKind::Virtual => return None,
        };
        let state = match nic.state {
            OperState::Up => "up",
            OperState::Down => "down",
            OperState::Unknown => "unknown",
        };
        Some(Nic {
            name: nic.name.clone(),
            kind: kind.to_owned(),
            link_mbps: nic.speed_mbps,
            mtu_bytes: nic.mtu.map(u64::from),
            numa_node: nic.place.node.map(u64::from),
            state: state.to_owned(),
            firmware: String::new(),
        })
    });
    let rdma = topology.rdma.iter().map(|device| {
        let state = device.ports.first().map(|port| port.state_text.clone());
        let firmware = format!("class/infiniband/{}/fw_ver", device.name);
        Nic {
            name: device.name.clone(),
            kind: "rdma".to_owned(),
            link_mbps: device.rate_mbps(),
            mtu_bytes: None,
            numa_node: device.place.node.map(u64::from),
            state: state.unwrap_or_default(),
            firmware: roots.sys().text(&firmware).unwrap_or_default(),
        }
    });
    ethernet.chain(rdma).collect()
}
