//! NICs and what the kernel and their ports have counted.

use super::hardware;
use crate::limits::INTERFACES_MAX;
use crate::snapshot::NicSeries;
use perigee_topology::{LinkLayer, Nic, NicKind, OperState, RdmaDevice, Roots, Topology};
use std::collections::BTreeSet;

/// What drivers of real network cards count of frames that came damaged, and of those for which
/// there was no buffer. `rx_dropped` is not among them: it also counts frames that no protocol of
/// this host wants.
const SHOWN: [&str; 6] = [
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_missed_errors",
    "rx_fifo_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
];

/// Bytes per second of a megabit per second.
const BYTES_PER_MEGABIT: u64 = 125_000;

/// All NICs that are wanted (empty: all), Ethernet first.
pub(crate) fn nics(roots: &Roots, topology: &Topology, wanted: &[String]) -> Vec<NicSeries> {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|other| other == name);
    let sys = roots.sys();
    let interfaces = topology.nics.iter().filter(|nic| is_wanted(&nic.name));
    let mut found: Vec<_> = interfaces
        .map(|nic| {
            let count = |name: &str| {
                sys.number::<u64>(&format!("class/net/{}/statistics/{name}", nic.name))
            };
            let kind = kind(nic, topology);
            let is_real = !matches!(kind, "virtual" | "loopback");
            let shown = SHOWN.iter().filter(|_| is_real);
            let shown = shown.filter_map(|name| Some(((*name).to_owned(), count(name)?)));
            let hardware = shown.collect();
            let count = |name: &str| count(name).unwrap_or(0);
            NicSeries {
                device: nic.name.clone(),
                port: 1,
                numa: nic.place.node,
                kind: kind.to_owned(),
                // The loopback and some virtual cards do not say.
                up: nic.state != OperState::Down,
                enabled: is_enabled(sys.text(&format!("class/net/{}/flags", nic.name))),
                link_bytes_per_second: nic.speed_mbps.map(|mbps| mbps * BYTES_PER_MEGABIT),
                receive_bytes: count("rx_bytes"),
                transmit_bytes: count("tx_bytes"),
                receive_packets: count("rx_packets"),
                transmit_packets: count("tx_packets"),
                errors: count("rx_errors") + count("tx_errors"),
                drops: count("rx_dropped") + count("tx_dropped"),
                hardware,
                ..NicSeries::default()
            }
        })
        .collect();
    let devices = topology.rdma.iter().filter(|device| is_wanted(&device.name));
    found.extend(devices.flat_map(|device| hardware::ports(sys, device)));
    found
}

/// Whether the administrator has turned an interface on, by its flags in hexadecimal.
fn is_enabled(flags: Option<String>) -> bool {
    const UP: u32 = 1;
    let flags =
        flags.and_then(|text| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok());
    flags.is_none_or(|flags| flags & UP != 0)
}

/// Kinds of their own for what shows bytes again that another NIC has counted: a bond those of its
/// members, an interface over InfiniBand those of its port.
fn kind(nic: &Nic, topology: &Topology) -> &'static str {
    let is_of_port = |device: &RdmaDevice| {
        let layers = device.ports.iter().map(|port| port.link_layer);
        device.netdev.as_ref() == Some(&nic.name)
            && layers.into_iter().any(|layer| layer == LinkLayer::InfiniBand)
    };
    match nic.kind {
        NicKind::Physical if topology.rdma.iter().any(is_of_port) => "ipoib",
        NicKind::Physical => "ethernet",
        NicKind::Bond => "bond",
        NicKind::Virtual => "virtual",
        NicKind::Loopback => "loopback",
    }
}

/// Numbers and names of the interfaces that probes can watch.
pub(crate) fn interfaces(
    roots: &Roots,
    topology: &Topology,
    wanted: &[String],
) -> BTreeSet<(u32, String)> {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|other| other == name);
    let nics = topology.nics.iter().filter(|nic| is_wanted(&nic.name)).take(INTERFACES_MAX);
    let numbered = |name: &String| {
        let number = roots.sys().number(&format!("class/net/{name}/ifindex"))?;
        Some((number, name.clone()))
    };
    nics.filter_map(|nic| numbered(&nic.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_shows_bytes_of_another_nic_again_has_a_kind_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("net/lo/ifindex", "1"),
            ("net/eth0/ifindex", "2"),
            ("net/bond0/ifindex", "3"),
            ("net/veth0/ifindex", "4"),
            ("net/ib0/ifindex", "5"),
            ("net/lo/type", "772"),
            ("net/eth0/device/vendor", "0x15b3"),
            ("net/bond0/bonding/mode", "802.3ad 4"),
            ("net/veth0/type", "1"),
            ("net/ib0/device/vendor", "0x15b3"),
            ("infiniband/mlx5_0/parent", "ib0"),
            ("infiniband/mlx5_0/ports/1/link_layer", "InfiniBand"),
            ("infiniband/mlx5_0/ports/1/counters/port_xmit_data", "7"),
            ("infiniband/mlx5_1/parent", "eth0"),
            ("infiniband/mlx5_1/ports/1/link_layer", "Ethernet"),
            ("infiniband/mlx5_1/ports/1/counters/port_xmit_data", "7"),
            ("infiniband/rxe0/parent", "eth0"),
            ("infiniband/rxe0/ports/1/link_layer", "Ethernet"),
        ] {
            let file = folder.path().join("class").join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let roots = Roots::new(folder.path(), "/proc");
        let found = nics(&roots, &Topology::discover(&roots), &[]);
        let kinds: BTreeMap<_, _> =
            found.iter().map(|nic| (nic.device.as_str(), nic.kind.as_str())).collect();
        let expected = [
            ("bond0", "bond"),
            ("eth0", "ethernet"),
            ("ib0", "ipoib"),
            ("lo", "loopback"),
            ("mlx5_0", "ib"),
            ("mlx5_1", "roce"),
            ("rxe0", "soft_roce"),
            ("veth0", "virtual"),
        ];
        assert_eq!(kinds, BTreeMap::from(expected));
    }

    #[test]
    fn a_nic_that_was_turned_off_is_distinguished_from_one_without_a_cable() {
        let flags = |text: &str| is_enabled(Some(text.to_owned()));
        assert!(flags("0x1003\n"), "on, no carrier");
        assert!(!flags("0x1002\n"));
        assert!(is_enabled(None) && flags("nonsense"), "it is not known to be off");
    }
}
