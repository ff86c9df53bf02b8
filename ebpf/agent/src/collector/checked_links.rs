//! What `perigee check` has measured of this host's links, for verdicts from the first day on.
//! Invariant: a NIC has a round trip to be held against only if all peers that it reaches now were
//! measured.

use crate::limits::BASELINE_TURNS;
use crate::snapshot::{LinkSeries, Snapshot};
use perigee_mesh::{CheckedNic, LinkBaseline};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The baseline of this host's links, as it is in its file.
#[derive(Debug, Default)]
pub(super) struct CheckedLinks {
    file: Option<PathBuf>,
    turn: u64,
    nics: BTreeMap<String, CheckedNic>,
    is_refused: bool,
}

/// What is known of NICs in a turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CheckedNics {
    /// Nanoseconds of a round trip over each.
    pub(super) round_trips: BTreeMap<String, u64>,
    /// Bytes per second of the link of each.
    pub(super) speeds: BTreeMap<String, u64>,
}

impl CheckedLinks {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        Self { file, ..Self::default() }
    }

    /// What is known in a turn; the file is read again now and then.
    pub(super) fn of(&mut self, snapshot: &Snapshot) -> CheckedNics {
        if self.turn.is_multiple_of(BASELINE_TURNS) {
            self.read(&snapshot.host);
        }
        self.turn += 1;
        checked(&self.nics, &snapshot.links)
    }

    fn read(&mut self, host: &str) {
        let Some(file) = &self.file else { return };
        let loaded = LinkBaseline::load(file);
        if let (Err(error), false) = (&loaded, self.is_refused) {
            tracing::warn!(%error, "The baseline of links cannot be used");
        }
        self.is_refused = loaded.is_err();
        self.nics = loaded.map(|baseline| baseline.nics_of(host)).unwrap_or_default();
    }
}

fn checked(nics: &BTreeMap<String, CheckedNic>, links: &[LinkSeries]) -> CheckedNics {
    let mut found = CheckedNics::default();
    for (device, nic) in nics {
        found.speeds.extend(nic.bytes_per_second.map(|speed| (device.clone(), speed)));
        let reached = links.iter().filter(|link| link.device == *device && link.connections > 0);
        let round_trips = reached.map(|link| {
            let address = link.peer.parse().ok()?;
            nic.round_trip_ns.get(&address).copied()
        });
        let farthest: Option<Vec<u64>> = round_trips.collect();
        let farthest = farthest.and_then(|all| all.into_iter().max());
        found.round_trips.extend(farthest.map(|ns| (device.clone(), ns)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nics() -> BTreeMap<String, CheckedNic> {
        let round_trips = [("10.0.0.2", 80_000), ("10.0.0.3", 120_000)];
        let round_trips = round_trips.map(|(peer, ns)| (peer.parse().unwrap(), ns));
        let nic = CheckedNic { bytes_per_second: Some(9), round_trip_ns: round_trips.into() };
        [("eth0".to_owned(), nic)].into()
    }

    fn links(peers: &[(&str, &str)]) -> Vec<LinkSeries> {
        let link = |(device, peer): &(&str, &str)| LinkSeries {
            device: (*device).to_owned(),
            peer: (*peer).to_owned(),
            connections: 1,
            ..LinkSeries::default()
        };
        peers.iter().map(link).collect()
    }

    #[test]
    fn a_nic_is_held_against_its_farthest_peer_if_all_its_peers_were_measured() {
        let of = |peers: &[(&str, &str)]| checked(&nics(), &links(peers)).round_trips;
        let both = of(&[("eth0", "10.0.0.2"), ("eth0", "10.0.0.3"), ("eth1", "10.0.0.9")]);
        assert_eq!(both, [("eth0".to_owned(), 120_000)].into());
        assert!(of(&[("eth0", "10.0.0.2"), ("eth0", "10.0.0.9")]).is_empty(), "one is unknown");
        assert!(of(&[("eth0", "[remote]")]).is_empty() && of(&[]).is_empty());
    }

    #[test]
    fn a_file_that_is_not_there_or_damaged_is_no_baseline() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("check.json");
        let mut links = CheckedLinks::new(Some(file.clone()));
        assert_eq!(links.of(&Snapshot::default()), CheckedNics::default());
        assert!(!links.is_refused);
        std::fs::write(&file, "{").unwrap();
        links.read("host");
        assert!(links.is_refused);
    }
}
