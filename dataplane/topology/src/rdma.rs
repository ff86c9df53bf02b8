//! RDMA devices as sysfs shows them. Invariant: what cannot be read is unknown, and an unknown port
//! state does not rule a device out.

use crate::gid::address::{Gid, GidScope};
use crate::gid::entry::{GidEntry, GidType};
use crate::limits::{GIDS_EMPTY_RUN_MAX, GIDS_PER_PORT_MAX};
use crate::place::DevicePlace;
use crate::roots::Folder;

/// State of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortState {
    /// Carries data.
    Active,
    /// Does not: down, initialising, armed.
    Inactive,
    /// Not said.
    Unknown,
}

/// What a port speaks on its cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
    /// Not said.
    Unknown,
}

/// One port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaPort {
    /// Number of the port on its device, from 1.
    pub number: u8,
    /// Whether it carries data.
    pub state: PortState,
    /// The kernel's text of the state, such as `4: ACTIVE`.
    pub state_text: String,
    /// What it speaks.
    pub link_layer: LinkLayer,
    /// Rate in megabits per second.
    pub rate_mbps: Option<u64>,
    /// Used entries of its GID table, by index.
    pub gids: Vec<GidEntry>,
}

/// One RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Name, such as `mlx5_0`.
    pub name: String,
    /// Where it sits. That of its network interface if it has none of its own (Soft-RoCE).
    pub place: DevicePlace,
    /// Its ports by number.
    pub ports: Vec<RdmaPort>,
    /// Its network interface, if it has one.
    pub netdev: Option<String>,
    /// Its file below `/dev/infiniband`, such as `uverbs0`; `None` without the module.
    pub uverbs: Option<String>,
}

impl RdmaDevice {
    /// True unless every port is known to carry no data.
    #[must_use]
    pub fn has_usable_port(&self) -> bool {
        self.ports.is_empty() || self.ports.iter().any(|port| port.state != PortState::Inactive)
    }

    /// Rate of its fastest usable port, in megabits per second.
    #[must_use]
    pub fn rate_mbps(&self) -> Option<u64> {
        let usable = self.ports.iter().filter(|port| port.state != PortState::Inactive);
        usable.filter_map(|port| port.rate_mbps).max()
    }
}

/// All RDMA devices by name.
pub(crate) fn read(sys: &Folder) -> Vec<RdmaDevice> {
    let names = sys.names("class/infiniband");
    names.into_iter().map(|name| read_device(sys, name)).collect()
}

fn read_device(sys: &Folder, name: String) -> RdmaDevice {
    let folder = format!("class/infiniband/{name}");
    let mut numbers: Vec<u8> = sys
        .names(&format!("{folder}/ports"))
        .iter()
        .filter_map(|number| number.parse().ok())
        .collect();
    numbers.sort_unstable();
    let read = |number: u8| read_port(sys, &format!("{folder}/ports/{number}"), number);
    let ports: Vec<RdmaPort> = numbers.into_iter().map(read).collect();
    let netdev = netdev_of(sys, &folder, &ports);
    let mut place = DevicePlace::read(sys, &format!("{folder}/device"));
    if place == DevicePlace::default()
        && let Some(netdev) = &netdev
    {
        place = DevicePlace::read(sys, &format!("class/net/{netdev}/device"));
    }
    let uverbs = uverbs_of(sys, &name);
    RdmaDevice { name, place, ports, netdev, uverbs }
}

/// By the GID table, by the shared PCI function, or by what Soft-RoCE calls its parent.
fn netdev_of(sys: &Folder, folder: &str, ports: &[RdmaPort]) -> Option<String> {
    let of_gids = ports.iter().flat_map(|port| &port.gids).find_map(|gid| gid.netdev.clone());
    of_gids
        .or_else(|| sys.word(&format!("{folder}/parent")))
        .or_else(|| sys.names(&format!("{folder}/device/net")).into_iter().next())
}

fn uverbs_of(sys: &Folder, name: &str) -> Option<String> {
    let mut files = sys.names("class/infiniband_verbs").into_iter();
    files.find(|file| {
        let device = sys.word(&format!("class/infiniband_verbs/{file}/ibdev"));
        device.as_deref() == Some(name)
    })
}

fn read_port(sys: &Folder, folder: &str, number: u8) -> RdmaPort {
    let text = |file: &str| sys.word(&format!("{folder}/{file}")).unwrap_or_default();
    let state_text = text("state");
    let link_layer = match text("link_layer").as_str() {
        "InfiniBand" => LinkLayer::InfiniBand,
        "Ethernet" => LinkLayer::Ethernet,
        _ => LinkLayer::Unknown,
    };
    RdmaPort {
        number,
        state: port_state(&state_text),
        state_text,
        link_layer,
        rate_mbps: rate_mbps(&text("rate")),
        gids: read_gids(sys, folder, number, link_layer),
    }
}

/// `4: ACTIVE`: the number is the interface, the word may change.
fn port_state(text: &str) -> PortState {
    let number = text.split(':').next().and_then(|word| word.trim().parse().ok());
    match number {
        Some(4_u8) => PortState::Active,
        Some(_) => PortState::Inactive,
        None => PortState::Unknown,
    }
}

/// `400 Gb/sec (4X NDR)`, also `2.5 Gb/sec (1X SDR)`.
fn rate_mbps(text: &str) -> Option<u64> {
    let (number, rest) = text.split_once(' ')?;
    if !rest.starts_with("Gb/sec") {
        return None;
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let tenths: u64 = fraction.get(..1)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(tenths * 100)
}

fn read_gids(sys: &Folder, folder: &str, port: u8, layer: LinkLayer) -> Vec<GidEntry> {
    let names = sys.names(&format!("{folder}/gids"));
    let indexes = names.iter().filter_map(|name| name.parse::<u32>().ok());
    let read = |index: u32| {
        let gid: Gid = sys.text(&format!("{folder}/gids/{index}"))?.parse().ok()?;
        if gid.scope() == GidScope::Null {
            return None;
        }
        let kind = sys.text(&format!("{folder}/gid_attrs/types/{index}"));
        let netdev = sys.word(&format!("{folder}/gid_attrs/ndevs/{index}"));
        let is_infiniband = layer == LinkLayer::InfiniBand;
        Some(GidEntry {
            port,
            index,
            gid,
            kind: GidType::of_attribute(&kind.unwrap_or_default(), is_infiniband),
            netdev,
        })
    };
    let mut gids = Vec::new();
    let mut empty = 0;
    for index in indexes.take(GIDS_PER_PORT_MAX) {
        match read(index) {
            Some(entry) => {
                gids.push(entry);
                empty = 0;
            }
            None => empty += 1,
        }
        if empty == GIDS_EMPTY_RUN_MAX {
            break;
        }
    }
    gids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_fraction() {
        assert_eq!(rate_mbps("400 Gb/sec (4X NDR)"), Some(400_000));
        assert_eq!(rate_mbps("2.5 Gb/sec (1X SDR)"), Some(2_500));
        for text in ["", "fast", "400", "400 Mb/sec", "9. Gb/sec", "99999999999999999999 Gb/sec"] {
            assert_eq!(rate_mbps(text), None, "{text}");
        }
    }

    #[test]
    fn gaps_in_a_gid_table_are_skipped_and_its_long_empty_tail_is_not_read() {
        const USED: &str = "0000:0000:0000:0000:0000:ffff:0a4d:0001";
        const EMPTY: &str = "0000:0000:0000:0000:0000:0000:0000:0000";
        let top = tempfile::tempdir().unwrap();
        let run = GIDS_EMPTY_RUN_MAX;
        let used = [0, run, 2 * run + 1];
        let entries = (0..100).map(|index| {
            let gid = if used.contains(&index) { USED } else { EMPTY };
            (index as u32, "RoCE v2", gid)
        });
        let entries: Vec<_> = entries.collect();
        let tree = crate::fixture::tree::Tree::new(top.path()).unwrap();
        tree.rdma(crate::fixture::tree::RdmaSpec {
            name: "rxe0",
            device: "virtual/net/rail0",
            netdev: "rail0",
            rate: "2.5 Gb/sec (1X SDR)",
            gids: &entries,
        })
        .unwrap();
        let devices = read(tree.roots().sys());
        let indexes: Vec<usize> =
            devices[0].ports[0].gids.iter().map(|gid| gid.index as usize).collect();
        assert_eq!(indexes, used[..2]);
    }

    #[test]
    fn port_states_go_by_their_number() {
        assert_eq!(port_state("4: ACTIVE"), PortState::Active);
        assert_eq!(port_state("1: DOWN"), PortState::Inactive);
        assert_eq!(port_state(""), PortState::Unknown);
        assert_eq!(port_state("?"), PortState::Unknown);
    }
}
