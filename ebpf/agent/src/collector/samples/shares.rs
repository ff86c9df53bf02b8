//! How many segments were lost or met a queue, by NIC and peer. Invariant: events and segments are
//! of the same turn and of the same sockets.

use super::counters::TurnCounters;
use crate::slow::share::{Mishap, ShareSample};
use crate::snapshot::Snapshot;

/// What ports count themselves of what becomes of packets; each has some of these.
const PORT_EVENTS: [(Mishap, &[&str]); 4] = [
    (Mishap::Lost, &["out_of_sequence", "packet_seq_err", "local_ack_timeout_err"]),
    (Mishap::Queued, &["np_ecn_marked_roce_packets", "rp_cnp_handled"]),
    (
        Mishap::Damaged,
        &[
            "rx_crc_errors",
            "rx_frame_errors",
            "tx_carrier_errors",
            "symbol_error",
            "local_link_integrity_errors",
            "port_rcv_errors",
        ],
    ),
    (
        Mishap::Discarded,
        &[
            "rx_missed_errors",
            "rx_fifo_errors",
            "tx_fifo_errors",
            "out_of_buffer",
            "port_xmit_discards",
        ],
    ),
];

/// What the segments of each link met in this turn. Segments that come out of order and those
/// that were sent again are signs of loss, of both directions; those that the peer had already
/// were not lost.
pub(super) fn shares(snapshot: &Snapshot, turn: &mut TurnCounters) -> Vec<ShareSample> {
    let mut shares = Vec::new();
    for link in snapshot.links.iter().filter(|link| !link.is_loopback()) {
        let name = format!("share/{}/{}", link.device, link.peer);
        let socket = &link.socket;
        let lost = link.retransmits.saturating_sub(socket.needless);
        let segments = socket.segments_sent.saturating_add(socket.segments_received);
        let counters = [lost, socket.out_of_order, socket.marked, segments];
        let mut grown = |index: usize| turn.grown(format!("{name}/{index}"), counters[index]);
        let [lost, out_of_order, marked, segments] = [0, 1, 2, 3].map(&mut grown);
        let lost = lost.zip(out_of_order).map(|(lost, late)| lost.saturating_add(late));
        for (mishap, events) in [(Mishap::Lost, lost), (Mishap::Queued, marked)] {
            shares.extend(events.zip(segments).map(|(events, segments)| ShareSample {
                mishap,
                device: link.device.clone(),
                peer: link.peer.clone(),
                events,
                segments,
            }));
        }
    }
    shares.extend(port_shares(snapshot, turn));
    shares
}

/// The same as ports count it themselves. What a port does not count says nothing of it.
fn port_shares(snapshot: &Snapshot, turn: &mut TurnCounters) -> Vec<ShareSample> {
    let mut shares = Vec::new();
    for nic in snapshot.nics.iter().filter(|nic| !nic.hardware.is_empty()) {
        let packets = nic.receive_packets.saturating_add(nic.transmit_packets);
        let name = format!("port/{}/{}", nic.device, nic.port);
        let segments = turn.grown(format!("{name}/packets"), packets);
        for (mishap, names) in PORT_EVENTS {
            let counted: Vec<u64> =
                names.iter().filter_map(|name| nic.hardware.get(*name).copied()).collect();
            if counted.is_empty() {
                continue;
            }
            let events = counted.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
            let events = turn.grown(format!("{name}/{mishap:?}"), events);
            shares.extend(events.zip(segments).map(|(events, segments)| ShareSample {
                mishap,
                device: nic.device.clone(),
                peer: String::new(),
                events,
                segments,
            }));
        }
    }
    shares
}
