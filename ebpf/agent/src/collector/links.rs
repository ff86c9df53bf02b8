//! Connections of our processes, as their sockets tell: level 0, also for those older than the
//! agent.
//! Invariant: a page is counted once, also by an agent that was started again while its process
//! lives, and no pair of NIC and peer that is there loses what it had counted.

use super::waits::Waits;
use crate::host::{NetworkNamespace, foreign_name};
use crate::limits::{GONE_SERIES_MAX, LINK_FRESH_MS, LINKS_MAX};
use crate::persisted::StateFolder;
use crate::snapshot::LinkSeries;
use perigee_activity::{LinkReading, PageListing, SocketCounters};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

const FILE: &str = "links.json";

/// NIC and peer.
type Ends = (String, String);

#[derive(Debug, Default)]
pub(super) struct Links {
    /// The last counters of each page.
    last: BTreeMap<PathBuf, BTreeMap<Ends, LinkCounters>>,
    /// What pages that are gone had counted.
    retired: BTreeMap<Ends, Retired>,
    turn: u64,
    waits: Waits,
}

#[derive(Clone, Copy, Debug, Default)]
struct Retired {
    counters: LinkCounters,
    /// The last turn in which a page had a place for this pair.
    seen_turn: u64,
}

/// What is counted between a NIC and a peer. Kept files of older agents lack the last ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LinkCounters {
    operations: u64,
    wire_ns: u64,
    peer_ns: u64,
    retransmits: u64,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    waited_ns: u64,
    #[serde(default)]
    copied_ns: u64,
    #[serde(default)]
    disk_ns: u64,
    #[serde(default)]
    arrived_bytes: u64,
    #[serde(default)]
    arrived_ns: u64,
    #[serde(default)]
    socket: SocketCounters,
}

/// Counters of each NIC and peer.
type KeptCounters = Vec<(Ends, LinkCounters)>;

/// The same as lists, because JSON has no keys of two parts.
#[derive(Default, Serialize, Deserialize)]
struct KeptLinks {
    last: Vec<(PathBuf, KeptCounters)>,
    retired: KeptCounters,
}

impl Links {
    /// Goes on from what was kept.
    pub(super) fn open(keep: &StateFolder) -> Self {
        let kept: KeptLinks = keep.read(FILE);
        let pages = kept.last.into_iter();
        Self {
            last: pages.map(|(path, links)| (path, links.into_iter().collect())).collect(),
            retired: kept
                .retired
                .into_iter()
                .map(|(ends, counters)| (ends, Retired { counters, seen_turn: 0 }))
                .collect(),
            turn: 0,
            waits: Waits::default(),
        }
    }

    /// Keeps everything for the next agent.
    pub(super) fn save(&self, keep: &StateFolder) -> io::Result<()> {
        let list = |links: &BTreeMap<Ends, LinkCounters>| links.clone().into_iter().collect();
        let pages = self.last.iter();
        let kept = KeptLinks {
            last: pages.map(|(path, links)| (path.clone(), list(links))).collect(),
            retired: self
                .retired
                .iter()
                .map(|(ends, retired)| (ends.clone(), retired.counters))
                .collect(),
        };
        keep.write(FILE, &kept)
    }

    /// The busiest pairs of NIC and peer.
    pub(super) fn read(
        &mut self,
        pages: &PageListing,
        network: NetworkNamespace,
        now_ms: u64,
    ) -> Vec<LinkSeries> {
        let mut found: BTreeMap<Ends, LinkSeries> = BTreeMap::new();
        let mut there: BTreeMap<_, BTreeMap<Ends, LinkCounters>> = BTreeMap::new();
        for page in pages.opened() {
            let counters = there.entry(page.path().to_owned()).or_default();
            for (place, link) in page.links().unwrap_or_default().into_iter().enumerate() {
                let device = match network.is_foreign(page) {
                    true => foreign_name(&link.device),
                    false => link.device.clone(),
                };
                let ends = (device, link.peer.clone());
                let counters = counters.entry(ends.clone()).or_default();
                *counters = counters.with(u64::saturating_add, LinkCounters::of(&link));
                if !page.is_ended() {
                    let series = found.entry(ends).or_default();
                    see(series, &link, now_ms);
                    let silent_turns = self.waits.see(page.path(), place, link.wait);
                    series.silent_turns = series.silent_turns.max(silent_turns);
                }
            }
        }
        self.waits.end_turn();
        for (path, last) in &self.last {
            if !there.contains_key(path) && path.file_name().is_some_and(|name| pages.holds(name)) {
                there.insert(path.clone(), last.clone());
            }
        }
        self.retire(there);
        let retired = self.retired.iter();
        let retired = retired.map(|(ends, retired)| (ends, &retired.counters));
        for (ends, counters) in retired.chain(self.last.values().flatten()) {
            let series = found.entry(ends.clone()).or_default();
            (series.device, series.peer) = ends.clone();
            counters.add_to(series);
        }
        let mut series: Vec<_> = found.into_values().collect();
        series.sort_by_key(|link| (link.round_trip_ns.is_none(), u64::MAX - link.operations));
        series.truncate(LINKS_MAX);
        series
    }

    /// Counters of a page that is gone, or of a place in it that other ends took over, stay
    /// counted.
    fn retire(&mut self, there: BTreeMap<PathBuf, BTreeMap<Ends, LinkCounters>>) {
        for (path, before) in std::mem::replace(&mut self.last, there) {
            for (ends, counters) in before {
                let now = self.last.get(&path).and_then(|page| page.get(&ends));
                let now = now.copied().unwrap_or_default();
                let lost = counters.with(u64::saturating_sub, now);
                if lost != LinkCounters::default() {
                    let retired = self.retired.entry(ends).or_default();
                    retired.counters = retired.counters.with(u64::saturating_add, lost);
                    retired.seen_turn = self.turn;
                }
            }
        }
        self.forget();
    }

    /// Of pairs that no page has any more, those that were seen last are kept, in case they come
    /// back.
    fn forget(&mut self) {
        self.turn += 1;
        for ends in self.last.values().flat_map(BTreeMap::keys) {
            if let Some(retired) = self.retired.get_mut(ends) {
                retired.seen_turn = self.turn;
            }
        }
        let gone = self.retired.iter();
        let gone = gone.filter(|(_, retired)| retired.seen_turn < self.turn);
        let mut gone: Vec<_> =
            gone.map(|(ends, retired)| (retired.seen_turn, ends.clone())).collect();
        let too_many = gone.len().saturating_sub(GONE_SERIES_MAX);
        gone.sort_unstable();
        for (_, ends) in gone.drain(..too_many) {
            self.retired.remove(&ends);
        }
    }
}

impl LinkCounters {
    fn of(link: &LinkReading) -> Self {
        Self {
            operations: link.operations,
            wire_ns: link.wire_ns,
            peer_ns: link.peer_ns,
            retransmits: link.retransmits,
            bytes: link.bytes,
            waited_ns: link.waited_ns,
            copied_ns: link.copied_ns,
            disk_ns: link.disk_ns,
            arrived_bytes: link.arrived_bytes,
            arrived_ns: link.arrived_ns,
            socket: link.socket,
        }
    }

    fn add_to(&self, series: &mut LinkSeries) {
        for (cell, more) in [
            (&mut series.operations, self.operations),
            (&mut series.wire_ns, self.wire_ns),
            (&mut series.peer_ns, self.peer_ns),
            (&mut series.retransmits, self.retransmits),
            (&mut series.bytes, self.bytes),
            (&mut series.waited_ns, self.waited_ns),
            (&mut series.copied_ns, self.copied_ns),
            (&mut series.disk_ns, self.disk_ns),
            (&mut series.arrived_bytes, self.arrived_bytes),
            (&mut series.arrived_ns, self.arrived_ns),
        ] {
            *cell = cell.saturating_add(more);
        }
        series.socket = series.socket.with(u64::saturating_add, self.socket);
    }

    /// Each number together with that of another.
    fn with(self, combine: impl Fn(u64, u64) -> u64, other: Self) -> Self {
        Self {
            operations: combine(self.operations, other.operations),
            wire_ns: combine(self.wire_ns, other.wire_ns),
            peer_ns: combine(self.peer_ns, other.peer_ns),
            retransmits: combine(self.retransmits, other.retransmits),
            bytes: combine(self.bytes, other.bytes),
            waited_ns: combine(self.waited_ns, other.waited_ns),
            copied_ns: combine(self.copied_ns, other.copied_ns),
            disk_ns: combine(self.disk_ns, other.disk_ns),
            arrived_bytes: combine(self.arrived_bytes, other.arrived_bytes),
            arrived_ns: combine(self.arrived_ns, other.arrived_ns),
            socket: self.socket.with(&combine, other.socket),
        }
    }
}

/// Adds what a socket said, if it said so lately.
fn see(series: &mut LinkSeries, link: &LinkReading, now_ms: u64) {
    if now_ms.abs_diff(link.looked_ms) > LINK_FRESH_MS || link.round_trip_us == 0 {
        return;
    }
    let best = |old: Option<u64>, new: u64| Some(old.map_or(new, |old| old.min(new)));
    let round_trip_ns = link.round_trip_us.saturating_mul(1000);
    series.connections += 1;
    series.round_trip_ns = best(series.round_trip_ns, round_trip_ns);
    if link.asks {
        series.asked_round_trip_ns = best(series.asked_round_trip_ns, round_trip_ns);
    }
    let shortest_ns = link.round_trip_min_us.saturating_mul(1000);
    let old = Some(series.round_trip_min_ns).filter(|old| *old > 0);
    series.round_trip_min_ns = best(old, shortest_ns).unwrap_or(0);
    series.congestion_window = series.congestion_window.saturating_add(link.window_segments);
    series.delivery_bytes_per_second =
        series.delivery_bytes_per_second.saturating_add(link.delivery_bytes_per_second);
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_activity::{Arrival, Link, LinkRole, Page, PageDirectory, Stages, pages};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    fn listing(directory: &PageDirectory) -> PageListing {
        PageListing::read(directory, |_| false)
    }

    #[test]
    fn connections_of_a_process_are_summed_by_ends_and_stay_counted_when_it_has_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        one.write_all(b"x").unwrap();
        other.read_exact(&mut [0]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path().join("pages"));
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let peer = "10.0.0.7".parse().unwrap();
        let two = [(); 2].map(|()| Link::claim(page, "eth1", peer, LinkRole::Asks));
        for link in &two {
            link.look(Some(one.as_fd()));
            link.record(&Stages::whole(5_000_000_000, 0), 10, Arrival::default());
        }
        let mut links = Links::default();
        let now_ms = crate::collector::since_1970_ms();
        let found = links.read(&listing(&directory), NetworkNamespace::default(), now_ms);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].connections, found[0].operations), (2, 2));
        assert!(found[0].round_trip_ns.is_some_and(|time| time > 0));
        assert!(found[0].peer_ns > 5_000_000_000);
        let stale = links.read(&listing(&directory), NetworkNamespace::default(), now_ms + 60_000);
        assert_eq!((stale[0].connections, stale[0].round_trip_ns), (0, None));
        std::fs::remove_file(pages(&directory)[0].path()).unwrap();
        let later = links.read(&listing(&directory), NetworkNamespace::default(), now_ms);
        assert_eq!((later[0].connections, later[0].operations), (0, 2));
        let again = links.read(&listing(&directory), NetworkNamespace::default(), now_ms);
        assert_eq!(again[0].operations, 2);
        let keep = StateFolder::new(Some(&folder.path().join("state")), "boot");
        links.save(&keep).unwrap();
        let next =
            Links::open(&keep).read(&listing(&directory), NetworkNamespace::default(), now_ms);
        assert_eq!(next[0].operations, 2);
    }

    /// A page with a place for each of these peers, each with that many exchanges. It lives as long
    /// as the folder.
    fn page(
        directory: &PageDirectory,
        peers: impl Iterator<Item = u16>,
        exchanges: u64,
    ) -> PathBuf {
        let before: Vec<_> = pages(directory).iter().map(|page| page.path().to_owned()).collect();
        let page = Box::leak(Box::new(Page::create(directory).unwrap()));
        for peer in peers {
            let [high, low] = peer.to_be_bytes();
            let peer = std::net::Ipv4Addr::new(10, 0, high, low);
            let link = Link::claim(page, "eth0", peer.into(), LinkRole::Asks);
            for _ in 0..exchanges {
                link.record(&Stages::whole(1, 0), 1, Arrival::default());
            }
        }
        let mut after = pages(directory).into_iter().map(|page| page.path().to_owned());
        after.find(|path| !before.contains(path)).unwrap()
    }

    #[test]
    fn a_peer_that_is_still_there_keeps_its_counters_however_many_others_go() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let mut links = Links::default();
        let mut read = || links.read(&listing(&directory), NetworkNamespace::default(), 0);
        let of_first = |series: &[LinkSeries]| {
            let first = series.iter().find(|link| link.peer == "10.0.0.1");
            first.map(|link| link.operations)
        };
        let ended = page(&directory, 1..2, 100);
        read();
        std::fs::remove_file(ended).unwrap();
        page(&directory, 1..2, 7);
        assert_eq!(of_first(&read()), Some(107));
        let most = GONE_SERIES_MAX as u16;
        for first in (2..3 * most).step_by(500) {
            let others = page(&directory, first..first + 500, 1);
            read();
            std::fs::remove_file(others).unwrap();
            assert_eq!(of_first(&read()), Some(107), "after the peers from {first} on");
        }
        assert!(links.retired.len() <= GONE_SERIES_MAX + 1);
    }

    #[test]
    fn of_peers_that_are_gone_those_seen_last_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let mut links = Links::default();
        for first in [1000, 2000, 0] {
            let ended = page(&directory, first..first + 400, 1);
            links.read(&listing(&directory), NetworkNamespace::default(), 0);
            std::fs::remove_file(ended).unwrap();
            links.read(&listing(&directory), NetworkNamespace::default(), 0);
        }
        let is_kept =
            |peer: &str| links.retired.contains_key(&("eth0".to_owned(), peer.to_owned()));
        assert!(is_kept("10.0.0.1") && !is_kept("10.0.3.233"), "{:?}", links.retired.len());
    }
}
