//! NICs and what the kernel and their ports have counted.

use super::hardware;
use crate::limits::INTERFACES_MAX;
use crate::snapshot::NicSeries;
use perigee_topology::{NicKind, OperState, Roots, Topology};
use std::collections::BTreeSet;

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
                    .unwrap_or(0)
            };
            NicSeries {
                device: nic.name.clone(),
                port: 1,
                numa: nic.place.node,
                kind: kind(nic.kind).to_owned(),
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
                ..NicSeries::default()
            }
        })
        .collect();
    let devices = topology
        .rdma
        .iter()
        .filter(|device| is_wanted(&device.name));
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

fn kind(kind: NicKind) -> &'static str {
    match kind {
        NicKind::Physical | NicKind::Bond => "ethernet",
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
    let nics = topology
        .nics
        .iter()
        .filter(|nic| is_wanted(&nic.name))
        .take(INTERFACES_MAX);
    let numbered = |name: &String| {
        let number = roots.sys().number(&format!("class/net/{name}/ifindex"))?;
        Some((number, name.clone()))
    };
    nics.filter_map(|nic| numbered(&nic.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::is_enabled;

    #[test]
    fn a_nic_that_was_turned_off_is_told_from_one_without_a_cable() {
        let flags = |text: &str| is_enabled(Some(text.to_owned()));
        assert!(flags("0x1003\n"), "on, no carrier");
        assert!(!flags("0x1002\n"));
        assert!(
            is_enabled(None) && flags("nonsense"),
            "nobody said that it is off"
        );
    }
}
