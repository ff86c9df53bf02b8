//! What verbs need. Invariant: a host without RDMA hardware is never blamed for not having it.

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use perigee_topology::gid::{self, GidType};
use perigee_topology::{LinkLayer, RdmaDevice, RdmaPort};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

/// Network cards by PCI vendor, whose RDMA half is a module of its own.
const RDMA_MODULES: [(u32, &str); 2] = [(0x15b3, "mlx5_ib"), (0x14e4, "bnxt_re")];
/// Base class of network controllers.
const CLASS_NETWORK: u32 = 0x02;

/// Hardware is there and the modules are not.
pub(super) fn modules(host: &HostFacts) -> CheckOutcome {
    let sys = host.roots.sys();
    let mut missing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for address in sys.names("bus/pci/devices") {
        let folder = format!("bus/pci/devices/{address}");
        let class = sys.hex(&format!("{folder}/class")).unwrap_or(0);
        let vendor = sys.hex(&format!("{folder}/vendor"));
        let module = RDMA_MODULES.iter().find(|(of, _)| Some(*of) == vendor);
        let has_rdma = !sys.names(&format!("{folder}/infiniband")).is_empty();
        if let Some((_, module)) = module
            && class >> 16 == CLASS_NETWORK
            && !has_rdma
        {
            missing.entry(module).or_default().push(address);
        }
    }
    if missing.is_empty() && host.topology.rdma.is_empty() {
        return CheckOutcome::Skipped("no RDMA hardware");
    }
    let mut findings: Vec<Finding> = missing
        .iter()
        .map(|(module, addresses)| {
            let message =
                format!("no RDMA device at {}: the module is not loaded", addresses.join(", "));
            Finding::warning(*module, message, format!("modprobe {module}"))
        })
        .collect();
    let is_without_verbs = host.topology.rdma.iter().all(|device| device.uverbs.is_none());
    if !host.topology.rdma.is_empty() && is_without_verbs {
        let message = "RDMA devices are there, but programs cannot use them without this module";
        findings.push(Finding::failure("ib_uverbs", message, "modprobe ib_uverbs"));
    }
    CheckOutcome::Checked(findings)
}

/// Files below `/dev/infiniband` are missing in most containers.
pub(super) fn device_files(host: &HostFacts) -> CheckOutcome {
    let devices = host.topology.rdma.iter();
    let files: Vec<(&RdmaDevice, &String)> =
        devices.filter_map(|device| Some((device, device.uverbs.as_ref()?))).collect();
    if files.is_empty() {
        return CheckOutcome::Skipped("no RDMA device with ib_uverbs");
    }
    let findings = files.into_iter().filter_map(|(device, file)| {
        let path = host.dev.join("infiniband").join(file);
        let shown = path.display().to_string();
        match std::fs::metadata(&path) {
            Err(error) => Some(Finding::failure(
                shown,
                format!("{} cannot be opened: {error}", device.name),
                "Give the container --device=/dev/infiniband, or run rdma-core's udev rules",
            )),
            Ok(found) if !host.process.may_open(found.mode(), found.uid(), found.gid()) => {
                let message = format!("{} may not be opened by this user", device.name);
                Some(Finding::failure(&shown, message, format!("chmod 666 {shown}")))
            }
            Ok(_) => None,
        }
    });
    CheckOutcome::of(findings)
}

/// Each RoCE port needs an address that routers forward.
pub(super) fn gids(host: &HostFacts) -> CheckOutcome {
    let mut findings = Vec::new();
    let mut is_any = false;
    for device in host.usable_rdma() {
        let roce = device.ports.iter().filter(|port| port.link_layer != LinkLayer::InfiniBand);
        for port in roce {
            is_any = true;
            findings.extend(gid_of_port(device, port));
        }
    }
    match is_any {
        true => CheckOutcome::Checked(findings),
        false => CheckOutcome::Skipped("no RoCE port"),
    }
}

fn gid_of_port(device: &RdmaDevice, port: &RdmaPort) -> Option<Finding> {
    let netdev = device.netdev.as_deref().unwrap_or("INTERFACE");
    let give_address = format!("ip address add ADDRESS/PREFIX dev {netdev}");
    let subject = format!("{} port {}", device.name, port.number);
    let Some(best) = gid::choose(&port.gids, None) else {
        let message = "the GID table is empty: no connection can be made";
        return Some(Finding::failure(subject, message, give_address));
    };
    if best.entry.kind == GidType::RoceV1 {
        return Some(Finding::failure(
            subject,
            "only RoCE v1, which routers do not forward and newer peers do not speak",
            "Update the card's firmware and driver until `rdma link` and gid_attrs show RoCE v2",
        ));
    }
    best.entry.gid.scope().is_link_local().then(|| {
        let message = format!("only link-local addresses ({})", best.entry.gid.readable());
        Finding::warning(subject, message, give_address)
    })
}
