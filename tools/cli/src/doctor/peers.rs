//! Reports of other hosts beside this one. Invariant: only facts are exchanged, in a file that
//! `perigee doctor --format=json` wrote; no host is called.

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use super::report::JSON_VERSION;
use crate::limits::DOCTOR_PEER_BYTES_MAX;
use perigee_flags::FlagError;
use perigee_topology::gid;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// What another host said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PeerHost {
    /// File of its report.
    name: String,
    mtus: BTreeSet<u64>,
    gid_types: BTreeSet<String>,
}

impl PeerHost {
    /// Reads a report.
    pub(super) fn read(path: &str) -> Result<Self, FlagError> {
        let refused =
            |cause: String| FlagError::FileMalformed { path: Path::new(path).into(), cause };
        let mut text = String::new();
        let file = File::open(path).map_err(|error| refused(error.to_string()))?;
        file.take(DOCTOR_PEER_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| refused(error.to_string()))?;
        let document: Value =
            serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        let version = &document["version"];
        if version.is_number() && *version != JSON_VERSION {
            let cause = format!(
                "its version is {version}, and this doctor reads version {JSON_VERSION}; \
                 run the same release on all hosts"
            );
            return Err(refused(cause));
        }
        let Some(rails) = document["facts"]["rails"].as_array().filter(|_| version.is_number())
        else {
            return Err(refused("it is no report of perigee doctor --format=json".to_owned()));
        };
        let types = rails.iter().filter_map(|rail| rail["gid_type"].as_str());
        Ok(Self {
            name: path.to_owned(),
            mtus: rails.iter().filter_map(|rail| rail["mtu"].as_u64()).collect(),
            gid_types: types.map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
impl PeerHost {
    /// A host with one rail.
    pub(super) fn of(name: &str, mtu: u64, gid_type: &str) -> Self {
        Self {
            name: name.to_owned(),
            mtus: BTreeSet::from([mtu]),
            gid_types: BTreeSet::from([gid_type.to_owned()]),
        }
    }
}

/// What this host says of itself.
pub(super) fn facts(host: &HostFacts) -> Value {
    let rails = host.rails().into_iter().map(|nic| {
        json!({
            "name": nic.name,
            "mtu": nic.mtu,
            "speed_mbps": nic.speed_mbps,
            "node": nic.place.node,
            "gid_type": gid_type(host, &nic.name),
        })
    });
    json!({ "rails": rails.collect::<Vec<_>>() })
}

/// Type of the GID that would be used on an interface.
fn gid_type(host: &HostFacts, netdev: &str) -> Option<String> {
    let mut devices = host.usable_rdma();
    let device = devices.find(|device| device.netdev.as_deref() == Some(netdev))?;
    let best = device.ports.iter().find_map(|port| gid::choose(&port.gids, None))?;
    Some(best.entry.kind.to_string())
}

/// Frames that are larger than the other side's vanish without a word.
pub(super) fn frame_sizes(host: &HostFacts) -> CheckOutcome {
    let own: BTreeSet<u64> = host.rails().iter().filter_map(|nic| nic.mtu).map(u64::from).collect();
    compare(host, |peer| {
        // Sizes that differ on one host are that host's own finding.
        if peer.mtus.is_empty() || own.last() == peer.mtus.last() {
            return None;
        }
        let message = format!("its rails have MTU {:?}, this host's {own:?}", peer.mtus);
        Some(Finding::failure(
            &peer.name,
            message,
            "Give all rails and the switches between them one MTU: ip link set dev RAIL mtu 9000",
        ))
    })
}

/// RoCE v1 and v2 do not understand each other.
pub(super) fn gid_types(host: &HostFacts) -> CheckOutcome {
    let rails = host.rails();
    let own: BTreeSet<String> = rails.iter().filter_map(|nic| gid_type(host, &nic.name)).collect();
    compare(host, |peer| {
        if own.is_empty() || peer.gid_types.is_empty() || !own.is_disjoint(&peer.gid_types) {
            return None;
        }
        let message = format!("its rails use {:?}, this host's {own:?}", peer.gid_types);
        Some(Finding::failure(
            &peer.name,
            message,
            "Use the same type on both: see perigee topology --explain and MC_GID_INDEX",
        ))
    })
}

fn compare(host: &HostFacts, one: impl Fn(&PeerHost) -> Option<Finding>) -> CheckOutcome {
    if host.peers.is_empty() {
        return CheckOutcome::Skipped("no --peers");
    }
    CheckOutcome::of(host.peers.iter().filter_map(one))
}
