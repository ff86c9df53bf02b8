//! The bus between cards and memory. Invariant: a setting is judged only if it can be read; without
//! privilege the kernel shows little of it.

mod configuration;

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use configuration::Configuration;
#[cfg(test)]
pub(super) use configuration::sample as sample_configuration;
use perigee_topology::DevicePlace;
use std::collections::BTreeSet;

/// Cards that move data: RDMA devices, GPUs and NVMe disks, each function once.
fn cards(host: &HostFacts) -> BTreeSet<String> {
    let topology = &host.topology;
    let rdma = topology.rdma.iter().map(|device| &device.place);
    let gpus = topology.gpus.iter().map(|gpu| &gpu.place);
    let disks = topology.disks.iter().filter(|disk| disk.is_nvme).map(|disk| &disk.place);
    rdma.chain(gpus).chain(disks).filter_map(address).collect()
}

fn rdma_cards(host: &HostFacts) -> BTreeSet<String> {
    let devices = host.topology.rdma.iter();
    devices.filter_map(|device| address(&device.place)).collect()
}

fn address(place: &DevicePlace) -> Option<String> {
    place.pci.as_ref().map(|path| path.address().to_string())
}

/// A card in a slot with fewer lanes, or with a bad contact, loses half its bandwidth or more.
pub(super) fn link_width(host: &HostFacts) -> CheckOutcome {
    let mut findings = Vec::new();
    let mut is_any = false;
    for card in cards(host) {
        let file = |name: &str| format!("bus/pci/devices/{card}/{name}_link_width");
        let width =
            |name: &str| host.roots.sys().number::<u32>(&file(name)).filter(|lanes| *lanes > 0);
        let Some((current, max)) = width("current").zip(width("max")) else {
            continue;
        };
        is_any = true;
        if current < max {
            findings.push(Finding::warning(
                card,
                format!("runs with {current} of {max} PCIe lanes"),
                "Seat the card again, or move it to a slot with all lanes",
            ));
        }
    }
    match is_any {
        true => CheckOutcome::Checked(findings),
        false => CheckOutcome::Skipped("no PCIe card with a known width"),
    }
}

/// Translating every access of a card costs bandwidth.
pub(super) fn iommu(host: &HostFacts) -> CheckOutcome {
    let cards = rdma_cards(host);
    let kinds = cards.iter().filter_map(|card| {
        let file = format!("bus/pci/devices/{card}/iommu_group/type");
        Some((card, host.roots.sys().text(&file)?))
    });
    let kinds: Vec<_> = kinds.collect();
    if kinds.is_empty() {
        return CheckOutcome::Skipped("no RDMA card behind an IOMMU");
    }
    let translated = kinds.into_iter().filter(|(_, kind)| kind.starts_with("DMA"));
    CheckOutcome::of(translated.map(|(card, kind)| {
        Finding::warning(
            card,
            format!("the IOMMU translates each access of the card (type {kind})"),
            "Boot with iommu=pt",
        )
    }))
}

/// Redirection at a switch sends traffic between GPU and NIC up to the processor and back.
pub(super) fn access_control(host: &HostFacts) -> CheckOutcome {
    if host.topology.gpus.is_empty() || host.topology.rdma.is_empty() {
        return CheckOutcome::Skipped("no GPU beside an RDMA device");
    }
    let paths = host.topology.gpus.iter().filter_map(|gpu| gpu.place.pci.as_ref());
    let bridges: BTreeSet<String> =
        paths.flat_map(|path| path.bridges()).map(ToString::to_string).collect();
    let mut is_any = false;
    let mut findings = Vec::new();
    for bridge in bridges {
        let Some(configuration) = Configuration::read(host, &bridge) else {
            continue;
        };
        is_any = true;
        if configuration.redirects_peers() {
            findings.push(Finding::warning(
                &bridge,
                "access control sends traffic between GPU and NIC through the processor",
                format!("setpci -s {bridge} ECAP_ACS+6.w=0000, or switch ACS off in the firmware"),
            ));
        }
    }
    match is_any {
        true => CheckOutcome::Checked(findings),
        false => CheckOutcome::Skipped("the bridges' registers cannot be read; run as root"),
    }
}

/// Without it a card waits for each write to memory before the next.
pub(super) fn relaxed_ordering(host: &HostFacts) -> CheckOutcome {
    let mut is_any = false;
    let mut findings = Vec::new();
    let cards = rdma_cards(host);
    if cards.is_empty() {
        return CheckOutcome::Skipped("no RDMA card on PCIe");
    }
    for card in cards {
        let Some(configuration) = Configuration::read(host, &card) else {
            continue;
        };
        let Some(is_on) = configuration.relaxes_ordering() else {
            continue;
        };
        is_any = true;
        if !is_on {
            findings.push(Finding::warning(
                &card,
                "relaxed ordering is off: writes to memory wait for each other",
                format!("setpci -s {card} CAP_EXP+8.w=0010:0010, or switch it on in the firmware"),
            ));
        }
    }
    match is_any {
        true => CheckOutcome::Checked(findings),
        false => CheckOutcome::Skipped("the cards' registers cannot be read; run as root"),
    }
}
