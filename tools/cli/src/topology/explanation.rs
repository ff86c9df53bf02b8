//! Why the rails are what they are, for people. Invariant: every device and every location of the
//! explanation has a line, also those that are not used.

use super::TopologyView;
use crate::columns::aligned;
use perigee_topology::gid::RankedGid;
use perigee_topology::{CUSTOM_MATRIX_VARIABLE, DeviceNote, LocationNote};

/// The reasons, below the tables.
pub(super) fn text(view: &TopologyView) -> String {
    let explanation = view.topology.explain(&view.selection);
    let mut text = String::from("\nWhy these rails\n");
    if let Some(path) = &view.custom_file {
        text.push_str(&format!(
            "  The matrix above is that of {path} ({CUSTOM_MATRIX_VARIABLE}); without it:\n"
        ));
    }
    for device in &explanation.devices {
        if let Some(cause) = &device.left_out {
            text.push_str(&format!("  {}: left out, {cause}\n", device.device));
        }
    }
    let rows: Vec<[String; 4]> = explanation.locations.iter().flat_map(location).collect();
    text.push_str(&aligned(2, &rows));
    text.push_str("\nGIDs, best first per port\n");
    let rows: Vec<[String; 6]> = explanation.devices.iter().flat_map(gids).collect();
    text.push_str(&aligned(2, &rows));
    if view.topology.rdma.is_empty() {
        text.push_str("  No RDMA device: data goes over TCP and shared memory\n");
    }
    text
}

fn location(note: &LocationNote) -> Vec<[String; 4]> {
    let row = |device: &str, list: &str, reason: &str| {
        [&note.location, device, list, reason].map(str::to_owned)
    };
    if note.choices.is_empty() {
        return vec![row("-", "-", "no RDMA device may be used")];
    }
    let choices = note.choices.iter().map(|choice| {
        let list = if choice.is_preferred { "preferred" } else { "other" };
        row(&choice.device, list, &choice.reason)
    });
    choices.collect()
}

fn gids(note: &DeviceNote) -> Vec<[String; 6]> {
    let mut last_port = None;
    let row = |ranked: &RankedGid| {
        let entry = &ranked.entry;
        let is_first = last_port.replace(entry.port) != Some(entry.port);
        [
            note.device.clone(),
            format!("port {}", entry.port),
            format!("index {}", entry.index),
            entry.gid.readable(),
            if is_first { "used" } else { "" }.to_owned(),
            ranked.reason.clone(),
        ]
    };
    note.gids.iter().map(row).collect()
}
