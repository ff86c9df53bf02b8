//! How far away the nearest peer behind each NIC is. When the nearest one goes, round trips over
//! the NIC take longer, and nothing is slow. Invariant: a distance only falls, so that a fault does
//! not look like one.

use crate::limits::LINKS_MAX;
use crate::snapshot::LinkSeries;
use std::collections::{BTreeMap, BTreeSet};

/// The nearest peer is farther away than the one before from this multiple on, in tenths, and by
/// this much.
const FARTHER_TENTHS: u64 = 13;
const FARTHER_NS: u64 = 50_000;

/// What is known of the way to each peer.
#[derive(Debug, Default)]
pub(super) struct PeerDistances {
    /// The shortest round trip ever seen, by NIC and peer.
    distances: BTreeMap<(String, String), u64>,
    /// By NIC, of the peers that exchanged bytes lately: in the turn before, and now.
    before: BTreeMap<String, u64>,
    now: BTreeMap<String, u64>,
}

impl PeerDistances {
    /// Takes the links of a turn.
    pub(super) fn see<'a>(&mut self, links: impl Iterator<Item = &'a LinkSeries>) {
        let mut now: BTreeMap<String, u64> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for link in links.filter(|link| link.connections > 0) {
            let ends = (link.device.clone(), link.peer.clone());
            seen.insert(ends.clone());
            let distance_ns = self.distances.entry(ends).or_insert(u64::MAX);
            let round_trips = [link.round_trip_ns.unwrap_or(0), link.round_trip_min_ns];
            for measured_ns in round_trips.into_iter().filter(|measured_ns| *measured_ns > 0) {
                *distance_ns = measured_ns.min(*distance_ns);
            }
            let nearest_ns = now.entry(link.device.clone()).or_insert(u64::MAX);
            *nearest_ns = (*distance_ns).min(*nearest_ns);
        }
        if self.distances.len() > 2 * LINKS_MAX {
            self.distances.retain(|ends, _| seen.contains(ends));
        }
        self.before.append(&mut self.now);
        if self.before.len() > LINKS_MAX {
            self.before.retain(|device, _| now.contains_key(device));
        }
        self.now = now;
    }

    /// Whether the nearest peer behind a NIC is farther away than the nearest of the turn before.
    pub(super) fn has_grown(&self, device: &str) -> bool {
        let (Some(before), Some(now)) = (self.before.get(device), self.now.get(device)) else {
            return false;
        };
        *now > before.saturating_mul(FARTHER_TENTHS) / 10
            && *now > before.saturating_add(FARTHER_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(peer: &str, round_trip_us: u64, shortest_us: u64) -> LinkSeries {
        LinkSeries {
            device: "eth0".to_owned(),
            peer: peer.to_owned(),
            connections: 1,
            round_trip_ns: Some(round_trip_us * 1000),
            round_trip_min_ns: shortest_us * 1000,
            ..LinkSeries::default()
        }
    }

    #[test]
    fn a_nic_reaches_farther_when_its_nearest_peer_goes_and_not_when_a_peer_becomes_slow() {
        let mut reach = PeerDistances::default();
        let mut grows = |links: &[LinkSeries]| {
            reach.see(links.iter());
            reach.has_grown("eth0")
        };
        assert!(!grows(&[link("near", 90, 40), link("far", 2000, 1900)]));
        // A fault, and the kernel forgets the shortest one.
        assert!(!grows(&[link("near", 5000, 5000), link("far", 7000, 7000)]));
        assert!(grows(&[link("far", 2000, 1900)]));
        assert!(!grows(&[link("far", 2000, 1900)]));
        assert!(!grows(&[link("near", 90, 40), link("far", 2000, 1900)]));
        assert!(!grows(&[]));
        assert!(grows(&[link("far", 2000, 1900)]), "also after a pause of all");
    }

    #[test]
    fn peers_and_nics_that_come_and_go_are_forgotten() {
        let mut reach = PeerDistances::default();
        for number in 0..10 * LINKS_MAX {
            let device = format!("eth{number}");
            let link = LinkSeries { device, ..link(&number.to_string(), 90, 40) };
            reach.see([link].iter());
            assert!(reach.distances.len() <= 2 * LINKS_MAX);
            assert!(reach.before.len() <= LINKS_MAX + 1);
        }
    }
}
