//! Links and frame sizes of the rails. Invariant: only interfaces that carry data are judged, never
//! one for management beside them.

use super::finding::{CheckOutcome, Finding, Severity};
use super::host::HostFacts;
use crate::limits::DOCTOR_ROCE_MTU_MIN;
use perigee_topology::{LinkLayer, Nic, OperState, PortState, RdmaDevice};

/// `IFF_UP` of the flags: the interface is meant to carry data.
const FLAG_UP: u32 = 1;

/// Frames of one size on all rails, large enough for RDMA's 4096-byte packets.
pub(super) fn rail_mtu(host: &HostFacts) -> CheckOutcome {
    let rails = host.rails();
    let largest = rails.iter().filter_map(|nic| nic.mtu).max();
    let Some(largest) = largest else {
        return CheckOutcome::Skipped("no interface with a known MTU");
    };
    let mut findings: Vec<Finding> = Vec::new();
    for (nic, mtu) in rails.iter().filter_map(|nic| Some((nic, nic.mtu?))) {
        if mtu < largest {
            findings.push(Finding::warning(
                &nic.name,
                format!(
                    "MTU {mtu}, other rails have {largest}: frames between them shrink or vanish"
                ),
                format!("ip link set dev {} mtu {largest}", nic.name),
            ));
        } else if mtu < DOCTOR_ROCE_MTU_MIN && carries_roce(host, nic) {
            findings.push(Finding::warning(
                &nic.name,
                format!("MTU {mtu}: RDMA packets carry 1024 bytes or less instead of 4096"),
                format!(
                    "ip link set dev {} mtu 9000, and the same on switches and peers",
                    nic.name
                ),
            ));
        }
    }
    CheckOutcome::Checked(findings)
}

/// Links that should carry data and do not.
pub(super) fn link_down(host: &HostFacts) -> CheckOutcome {
    let mut rdma: Vec<Finding> = host.topology.rdma.iter().flat_map(dead_ports).collect();
    // A second, unused port is usual; no port at all is not.
    if host.usable_rdma().next().is_none() {
        rdma.iter_mut().for_each(|finding| finding.severity = Severity::Failure);
    }
    let of_rdma = |nic: &Nic| {
        let mut devices = host.topology.rdma.iter();
        devices.any(|device| device.netdev.as_ref() == Some(&nic.name))
    };
    let wanted = |nic: &&Nic| {
        let flags = host.roots.sys().hex(&format!("class/net/{}/flags", nic.name));
        nic.is_physical()
            && nic.state == OperState::Down
            && flags.is_some_and(|flags| flags & FLAG_UP != 0)
            && !of_rdma(nic)
    };
    let nics = host.topology.nics.iter().filter(wanted).map(|nic| {
        Finding::warning(
            &nic.name,
            "the interface is switched on and has no link",
            format!("Check cable and switch port, or ip link set dev {} down", nic.name),
        )
    });
    if host.topology.rdma.is_empty() && host.topology.nics.is_empty() {
        return CheckOutcome::Skipped("no network device");
    }
    CheckOutcome::of(rdma.into_iter().chain(nics))
}

fn dead_ports(device: &RdmaDevice) -> impl Iterator<Item = Finding> {
    let dead = device.ports.iter().filter(|port| port.state == PortState::Inactive);
    dead.map(|port| {
        let netdev = device.netdev.as_deref().unwrap_or(&device.name);
        let fix = match port.link_layer {
            LinkLayer::InfiniBand => "Check the cable, and that a subnet manager runs".to_owned(),
            _ => format!("Check the cable, then ip link set dev {netdev} up"),
        };
        let message = format!("port {} is `{}`", port.number, port.state_text);
        Finding::warning(&device.name, message, fix)
    })
}

/// One slow rail among fast ones: a bad cable, or a card that should not be a rail.
pub(super) fn link_speed(host: &HostFacts) -> CheckOutcome {
    let rates: Vec<(&str, u64)> = host
        .usable_rdma()
        .filter_map(|device| Some((device.name.as_str(), device.rate_mbps()?)))
        .collect();
    let Some(fastest) = rates.iter().map(|(_, mbps)| *mbps).max() else {
        return CheckOutcome::Skipped("no RDMA device with a known rate");
    };
    let slow = rates.iter().filter(|(_, mbps)| *mbps < fastest).map(|(name, mbps)| {
        Finding::warning(
            *name,
            format!("{mbps} Mb/s, other devices have {fastest}"),
            format!("Check cable and switch port, or MC_TE_FILTERS_EXCLUDE={name}"),
        )
    });
    CheckOutcome::of(slow)
}

fn carries_roce(host: &HostFacts, nic: &Nic) -> bool {
    host.usable_rdma().any(|device| {
        let is_ethernet = device.ports.iter().any(|port| port.link_layer == LinkLayer::Ethernet);
        is_ethernet && device.netdev.as_ref() == Some(&nic.name)
    })
}
