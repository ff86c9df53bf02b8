//! Ports of RDMA devices. Kernel bypass does not bypass these counters.

use crate::snapshot::NicSeries;
use perigee_topology::{Folder, LinkLayer, PortState, RdmaDevice, RdmaPort};
use std::collections::BTreeMap;

const BYTES_PER_MEGABIT: u64 = 125_000;
/// Port counters of data count in units of four bytes.
const DATA_UNIT_BYTES: u64 = 4;
/// Counters that are shown by name. Drivers have dozens; these tell congestion, loss and broken
/// links.
const SHOWN: [&str; 21] = [
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "out_of_sequence",
    "out_of_buffer",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "req_cqe_error",
    "duplicate_request",
    "retry_exceeded_err",
    "completer_retry_err",
    "link_downed",
    "send_err",
    "symbol_error",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "port_xmit_wait",
];

/// The ports of a device.
pub(super) fn ports(sys: &Folder, device: &RdmaDevice) -> Vec<NicSeries> {
    device.ports.iter().map(|port| read_port(sys, device, port)).collect()
}

fn read_port(sys: &Folder, device: &RdmaDevice, port: &RdmaPort) -> NicSeries {
    let folder = format!("class/infiniband/{}/ports/{}", device.name, port.number);
    let counter = |name: &str| sys.number::<u64>(&format!("{folder}/counters/{name}"));
    let hardware = |name: &str| sys.number::<u64>(&format!("{folder}/hw_counters/{name}"));
    // Soft-RoCE has no port counters of data; its packets pass its interface, whose counters stand
    // for it.
    let interface = |name: &str| {
        let netdev = device.netdev.as_ref()?;
        sys.number::<u64>(&format!("class/net/{netdev}/statistics/{name}"))
    };
    let data = |port: &str, netdev: &str| {
        let bytes = counter(port).map(|words| words * DATA_UNIT_BYTES);
        bytes.or_else(|| interface(netdev)).unwrap_or(0)
    };
    let packets =
        |port: &str, netdev: &str| counter(port).or_else(|| interface(netdev)).unwrap_or(0);
    let shown = SHOWN.iter().filter_map(|name| {
        let value = hardware(name).or_else(|| counter(name))?;
        Some(((*name).to_owned(), value))
    });
    NicSeries {
        device: device.name.clone(),
        port: port.number,
        numa: device.place.node,
        kind: match port.link_layer {
            LinkLayer::InfiniBand => "ib",
            _ if counter("port_xmit_data").is_none() && device.netdev.is_some() => "soft_roce",
            LinkLayer::Ethernet | LinkLayer::Unknown => "roce",
        }
        .to_owned(),
        up: port.state != PortState::Inactive,
        enabled: !sys
            .text(&format!("{folder}/phys_state"))
            .is_some_and(|state| state.contains("Disabled")),
        link_bytes_per_second: port.rate_mbps.map(|mbps| mbps * BYTES_PER_MEGABIT),
        receive_bytes: data("port_rcv_data", "rx_bytes"),
        transmit_bytes: data("port_xmit_data", "tx_bytes"),
        receive_packets: packets("port_rcv_packets", "rx_packets"),
        transmit_packets: packets("port_xmit_packets", "tx_packets"),
        errors: counter("symbol_error").unwrap_or(0) + counter("port_rcv_errors").unwrap_or(0),
        drops: counter("port_xmit_discards").unwrap_or(0),
        hardware: shown.collect::<BTreeMap<_, _>>(),
        ..NicSeries::default()
    }
}
