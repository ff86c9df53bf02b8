//! The host as tables for people. Invariant: nothing is shown that was not read; what is unknown is
//! a dash.

use super::TopologyView;
use crate::columns::aligned;
use perigee_topology::gid;
use perigee_topology::{
    DevicePlace, Disk, Gpu, GpuVendor, Nic, NicKind, NumaNode, OperState, PortState, RdmaDevice,
};
use std::fmt::Write as _;

/// All tables; a kind of device that the host does not have is one line.
pub(super) fn text(view: &TopologyView) -> String {
    let topology = &view.topology;
    let carries_rdma = |nic: &Nic| {
        let mut devices = topology.rdma.iter();
        devices.any(|device| device.netdev.as_ref() == Some(&nic.name))
    };
    let is_shown = |nic: &&Nic| view.shows_virtual || nic.is_physical() || carries_rdma(nic);
    let nics = topology.nics.iter().filter(is_shown);
    [
        section("NUMA nodes", ["NODE", "CPUS", "COUNT"], topology.nodes.iter().map(node)),
        section(
            "RDMA devices",
            ["DEVICE", "STATE", "RATE", "PCI", "NODE", "INTERFACE", "GID"],
            topology.rdma.iter().map(rdma),
        ),
        section(
            "Network interfaces",
            ["INTERFACE", "STATE", "SPEED", "MTU", "PCI", "NODE", "KIND"],
            nics.map(nic),
        ),
        section("GPUs", ["GPU", "VENDOR", "PCI", "NODE"], topology.gpus.iter().map(gpu)),
        section("Disks", ["DISK", "SIZE", "KIND", "PCI", "NODE"], topology.disks.iter().map(disk)),
        rails(view),
    ]
    .join("\n")
}

/// A title and a table, or that there is nothing.
fn section<const N: usize>(
    title: &str,
    headers: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut table = vec![headers.map(str::to_owned)];
    table.extend(rows);
    match table.len() {
        1 => format!("{title}: none\n"),
        _ => format!("{title}\n{}", aligned(2, &table)),
    }
}

fn rails(view: &TopologyView) -> String {
    let joined = |names: &[String]| match names {
        [] => "-".to_owned(),
        names => names.join(" "),
    };
    let rows = view.matrix.rows().map(|(location, rails)| {
        [location.to_owned(), joined(&rails.preferred), joined(&rails.others)]
    });
    section("Rails per memory location", ["LOCATION", "PREFERRED", "OTHERS"], rows)
}

fn node(node: &NumaNode) -> [String; 3] {
    [node.number.to_string(), ranges(&node.cpus), node.cpus.len().to_string()]
}

fn rdma(device: &RdmaDevice) -> [String; 7] {
    let states = device.ports.iter().map(|port| match port.state {
        PortState::Active => "active",
        PortState::Inactive => "down",
        PortState::Unknown => "unknown",
    });
    let states: Vec<&str> = states.collect();
    let best = device.ports.iter().find_map(|port| gid::choose(&port.gids, None));
    let gid = best.map(|best| format!("{} {}", best.entry.index, best.entry.gid.readable()));
    [
        device.name.clone(),
        states.join("/"),
        rate(device.rate_mbps()),
        pci(&device.place),
        numa(&device.place),
        device.netdev.clone().unwrap_or_else(dash),
        gid.unwrap_or_else(dash),
    ]
}

fn nic(nic: &Nic) -> [String; 7] {
    let state = match nic.state {
        OperState::Up => "up",
        OperState::Down => "down",
        OperState::Unknown => "unknown",
    };
    let kind = match nic.kind {
        NicKind::Physical => "card",
        NicKind::Bond => "bond",
        NicKind::Virtual => "virtual",
        NicKind::Loopback => "loopback",
    };
    [
        nic.name.clone(),
        state.to_owned(),
        rate(nic.speed_mbps),
        nic.mtu.map_or_else(dash, |mtu| mtu.to_string()),
        pci(&nic.place),
        numa(&nic.place),
        kind.to_owned(),
    ]
}

fn gpu(gpu: &Gpu) -> [String; 4] {
    let vendor = match gpu.vendor {
        GpuVendor::Nvidia => "NVIDIA",
        GpuVendor::Amd => "AMD",
    };
    [
        format!("{}:{}", gpu.vendor.prefix(), gpu.index),
        vendor.to_owned(),
        pci(&gpu.place),
        numa(&gpu.place),
    ]
}

fn disk(disk: &Disk) -> [String; 5] {
    let is_virtual = disk.name.starts_with("vd");
    let kind = match (disk.is_nvme, disk.is_rotational) {
        _ if is_virtual => "virtual",
        (true, _) => "NVMe",
        (false, true) => "spinning",
        (false, false) => "SSD",
    };
    [
        disk.name.clone(),
        format!("{} GiB", disk.bytes >> 30),
        kind.to_owned(),
        pci(&disk.place),
        numa(&disk.place),
    ]
}

fn dash() -> String {
    "-".to_owned()
}

fn pci(place: &DevicePlace) -> String {
    place.pci.as_ref().map_or_else(dash, |path| path.address().to_string())
}

fn numa(place: &DevicePlace) -> String {
    place.node.map_or_else(dash, |node| node.to_string())
}

fn rate(mbps: Option<u64>) -> String {
    match mbps {
        None => dash(),
        Some(mbps) if mbps % 1000 == 0 => format!("{} Gb/s", mbps / 1000),
        Some(mbps) => format!("{}.{} Gb/s", mbps / 1000, mbps % 1000 / 100),
    }
}

/// `0-15,32-47` for a sorted list.
fn ranges(cpus: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = cpus.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while let Some(next) = rest.next_if_eq(&(last + 1)) {
            last = next;
        }
        let separator = if text.is_empty() { "" } else { "," };
        let _ = match first == last {
            true => write!(text, "{separator}{first}"),
            false => write!(text, "{separator}{first}-{last}"),
        };
    }
    if text.is_empty() { dash() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_shortened_to_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "-");
    }

    #[test]
    fn rates_keep_one_digit_when_they_need_it() {
        assert_eq!(rate(Some(400_000)), "400 Gb/s");
        assert_eq!(rate(Some(2_500)), "2.5 Gb/s");
        assert_eq!(rate(None), "-");
    }
}
