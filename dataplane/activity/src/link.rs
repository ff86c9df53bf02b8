//! A connection of this process between a NIC and a peer: what its socket says about the wire, and
//! what is left of its exchanges beside. Invariant: one writer at a time; a link may move to
//! another thread, but is never shared.

use crate::device::{device_between, ends_of};
use crate::layout::{LinkCells, LinkKey};
use crate::limits::LOOK_INTERVAL_MS;
use crate::link_wait::LinkWait;
use crate::page::{Page, page};
use crate::slot::grow;
use crate::stages::Stages;
use crate::tcp_info::TcpInfo;
use std::cell::Cell;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Which part this process has in the exchanges of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRole {
    /// It sends requests, and knows how long each exchange takes.
    Asks,
    /// It serves the peer's requests.
    Answers,
}

/// Payload that came behind an answer: the peer had it ready when it answered, so its time is the
/// wire's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Payload bytes.
    pub bytes: u64,
    /// From the answer to the last of them.
    pub took_ns: u64,
}

/// A connection in the page. One that has no place there, or is no TCP connection, counts nothing.
#[derive(Debug, Default)]
pub struct Link {
    device: String,
    peer: String,
    place: Option<LinkSlot>,
}

#[derive(Debug)]
struct LinkSlot {
    page: &'static Page,
    index: usize,
    cells: &'static LinkCells,
    looked_ms: Cell<u64>,
    last: Cell<TcpInfo>,
    /// Waits that have begun.
    waits: Cell<u64>,
    /// The one that is under way, as its cell has it.
    wait: Cell<u64>,
}

impl Link {
    /// The link of a connected socket, in the page of this process.
    pub fn of(socket: Option<BorrowedFd<'_>>, role: LinkRole) -> Self {
        let ends = socket.and_then(ends_of);
        ends.map_or_else(Self::default, |(own, peer)| {
            Self::between(page(), device_between(own, peer), peer, role)
        })
    }

    /// A link in a page of one's own.
    pub fn claim(page: &'static Page, device: &str, peer: IpAddr, role: LinkRole) -> Self {
        Self::between(Some(page), device.to_owned(), peer, role)
    }

    fn between(page: Option<&'static Page>, device: String, peer: IpAddr, role: LinkRole) -> Self {
        let key = LinkKey::new(&device, peer);
        let place = page.and_then(|page| LinkSlot::claim(page, key, role));
        Self { device, peer: peer.to_string(), place }
    }

    /// Address of the other end; empty if that is unknown.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Name of the interface that its bytes go over; empty if that is unknown.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Counts an exchange of `bytes`, of which some came behind the answer.
    #[inline]
    pub fn record(&self, stages: &Stages, bytes: u64, arrival: Arrival) {
        let Some(place) = &self.place else {
            return;
        };
        let cells = place.cells;
        let sent = bytes.saturating_sub(arrival.bytes);
        let network_ns = place.network_ns(sent).unwrap_or(stages.total_ns);
        let explained_ns = network_ns.saturating_add(arrival.took_ns);
        grow(&cells.operations, 1);
        grow(&cells.wire_ns, stages.total_ns);
        grow(&cells.peer_ns, stages.total_ns.saturating_sub(explained_ns));
        grow(&cells.bytes, bytes);
        grow(&cells.waited_ns, stages.waited_ns);
        grow(&cells.copied_ns, stages.copied_ns);
        grow(&cells.disk_ns, stages.disk_ns);
        grow(&cells.arrived_bytes, arrival.bytes);
        grow(&cells.arrived_ns, arrival.took_ns);
    }

    /// An answer is waited for, which may be on its way already.
    #[inline]
    pub fn begin_wait(&self) {
        if let Some(place) = &self.place {
            place.begin_wait(LinkWait::UNDER_WAY);
        }
    }

    /// An answer is waited for, and nothing moves.
    pub fn note_silence(&self, socket: Option<BorrowedFd<'_>>) {
        let Some(place) = &self.place else {
            return;
        };
        if place.wait.get() & LinkWait::SILENT == 0 {
            place.begin_wait(LinkWait::SILENT);
        }
        self.look(socket);
    }

    /// Bytes have moved, or the wait is over.
    #[inline]
    pub fn end_wait(&self) {
        if let Some(place) = self.place.as_ref().filter(|place| place.wait.get() != 0) {
            place.set_wait(0);
        }
    }

    /// Asks the kernel how the connection does, at most once a second.
    #[inline]
    pub fn look(&self, socket: Option<BorrowedFd<'_>>) {
        if let (Some(place), Some(socket)) = (&self.place, socket) {
            let now_ms = now_ms();
            if now_ms.abs_diff(place.looked_ms.get()) >= LOOK_INTERVAL_MS {
                place.looked_ms.set(now_ms);
                place.look(socket, now_ms);
            }
        }
    }
}

impl LinkSlot {
    /// What the connection needs to send `bytes` and get an answer: a round trip, and another one
    /// for each further window of bytes. `None` before the first look.
    fn network_ns(&self, bytes: u64) -> Option<u64> {
        let last = self.last.get();
        let window_bytes = last.window_segments * last.segment_bytes;
        let windows = 1 + bytes.checked_div(window_bytes)?;
        Some(last.round_trip_us.saturating_mul(1000).saturating_mul(windows))
    }

    fn claim(page: &'static Page, key: LinkKey, role: LinkRole) -> Option<Self> {
        let (index, cells) = page.claim_link(key)?;
        let asks = u64::from(role == LinkRole::Asks);
        cells.asks.store(asks, Ordering::Relaxed);
        Some(Self {
            page,
            index,
            cells,
            looked_ms: Cell::new(0),
            last: Cell::default(),
            waits: Cell::new(0),
            wait: Cell::new(0),
        })
    }

    fn begin_wait(&self, kind: u64) {
        self.waits.set(self.waits.get() + 1);
        self.set_wait(self.waits.get() << 1 | kind);
    }

    fn set_wait(&self, wait: u64) {
        self.wait.set(wait);
        self.cells.wait.store(wait, Ordering::Relaxed);
    }

    fn look(&self, socket: BorrowedFd<'_>, now_ms: u64) {
        let Some(info) = TcpInfo::of(socket) else {
            return;
        };
        let cells = self.cells;
        let last = self.last.replace(info);
        grow(&cells.retransmits, info.retransmits.wrapping_sub(last.retransmits));
        let grown = info.counters.with(u64::saturating_sub, last.counters);
        for (cell, more) in cells.socket.iter().zip(grown.encode()) {
            grow(cell, more);
        }
        let store = |cell: &AtomicU64, value| cell.store(value, Ordering::Relaxed);
        store(&cells.round_trip_us, info.round_trip_us);
        store(&cells.round_trip_min_us, info.round_trip_min_us);
        store(&cells.window_segments, info.window_segments);
        store(&cells.delivery_bytes_per_second, info.delivery_bytes_per_second);
        store(&cells.looked_ms, now_ms);
    }
}

impl Drop for LinkSlot {
    fn drop(&mut self) {
        self.cells.looked_ms.store(0, Ordering::Relaxed);
        self.cells.wait.store(0, Ordering::Relaxed);
        self.page.give_back_link(self.index);
    }
}

/// Milliseconds since 1970, which means the same in every container of a host.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{PageDirectory, pages};
    use crate::layout::{LINK_BYTES, LINKS_OFFSET, OLDER_LINK_BYTES, OLDER_VERSION, PageHeader};
    use std::io::{Read, Write};
    use std::mem::offset_of;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn a_reader_sees_round_trips_of_a_connection_and_who_is_at_its_ends() {
        let (mut one, mut other) = pair();
        one.write_all(&[7; 4096]).unwrap();
        other.read_exact(&mut [0; 4096]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let (own, peer) = ends_of(one.as_fd()).unwrap();
        let link = Link::between(Some(page), device_between(own, peer), peer, LinkRole::Asks);
        link.record(&Stages::whole(90_000, 0), 4096, Arrival::default());
        link.look(Some(one.as_fd()));
        let arrival = Arrival { bytes: 96, took_ns: 5_000 };
        let long =
            Stages { total_ns: 1 << 40, waited_ns: 7, copied_ns: 8, disk_ns: 9, queue_ns: 0 };
        link.record(&long, 4096, arrival);
        let links = pages(&directory)[0].links().unwrap();
        assert_eq!(links.len(), 1);
        assert_eq!((links[0].device.as_str(), links[0].peer.as_str()), ("lo", "127.0.0.1"));
        assert_eq!((links[0].operations, links[0].wire_ns), (2, 90_000 + (1 << 40)));
        assert!(links[0].peer_ns > 1 << 39);
        assert!(links[0].peer_ns < 1 << 40, "nothing is charged before the first look");
        assert_eq!((links[0].waited_ns, links[0].copied_ns, links[0].disk_ns), (7, 8, 9));
        assert_eq!((links[0].arrived_bytes, links[0].arrived_ns), (96, 5_000));
        assert_eq!(links[0].socket.bytes_sent, 4096);
        assert!(links[0].socket.segments_sent > 0);
        assert_eq!((links[0].bytes, links[0].asks), (8192, true));
        assert!(links[0].round_trip_us > 0 && links[0].window_segments > 0, "{links:?}");
        assert!(now_ms().abs_diff(links[0].looked_ms) < 60_000);
        drop(link);
        let links = pages(&directory)[0].links().unwrap();
        assert_eq!(
            (links[0].operations, links[0].looked_ms),
            (2, 0),
            "counters stay, the look is over"
        );
    }

    #[test]
    fn a_reader_tells_a_wait_from_the_one_before_and_whether_anything_moves() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let link = Link::claim(page, "eth0", "10.0.0.1".parse().unwrap(), LinkRole::Asks);
        let wait = || pages(&directory)[0].links().unwrap()[0].wait;
        let silent = |number| Some(LinkWait { number, is_silent: true });
        assert_eq!(wait(), None);
        link.begin_wait();
        assert_eq!(wait(), Some(LinkWait { number: 1, is_silent: false }));
        link.note_silence(None);
        assert_eq!(wait(), silent(2));
        link.note_silence(None);
        assert_eq!(wait(), silent(2), "the same silence");
        link.end_wait();
        assert_eq!(wait(), None);
        link.note_silence(None);
        assert_eq!(wait(), silent(3));
        drop(link);
        assert_eq!(wait(), None, "the connection is over");
    }

    #[test]
    fn a_full_page_and_a_socket_without_a_peer_count_nothing() {
        let page = Box::leak(Box::new(Page::private().unwrap()));
        let peer = "10.0.0.1".parse().unwrap();
        let links: Vec<_> = (0..crate::limits::LINKS)
            .map(|_| Link::claim(page, "eth0", peer, LinkRole::Asks))
            .collect();
        assert!(links.iter().all(|link| link.place.is_some()));
        let none = Link::claim(page, "eth0", peer, LinkRole::Asks);
        assert!(none.place.is_none());
        none.record(&Stages::whole(1, 0), 1, Arrival::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(Link::of(Some(listener.as_fd()), LinkRole::Asks).place.is_none());
        drop(links);
        assert!(Link::claim(page, "eth0", peer, LinkRole::Asks).place.is_some());
    }

    #[test]
    fn a_page_of_the_version_before_is_read_without_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let names = ["10.0.0.1", "10.0.0.2"];
        for (peer, bytes) in names.into_iter().zip([5, 7]) {
            let link = Link::claim(page, "eth0", peer.parse().unwrap(), LinkRole::Asks);
            link.record(&Stages { waited_ns: 3, ..Stages::whole(9, 0) }, bytes, Arrival::default());
        }
        // As an older build wrote it: the same cells without the last ones, one link close behind
        // the other.
        let file = std::fs::OpenOptions::new().write(true).open(page.path().unwrap()).unwrap();
        let written = std::fs::read(page.path().unwrap()).unwrap();
        for index in 0..names.len() {
            let mut link =
                written[LINKS_OFFSET + index * LINK_BYTES..][..OLDER_LINK_BYTES].to_vec();
            link[offset_of!(LinkCells, waited_ns)..].fill(0);
            file.write_all_at(&link, (LINKS_OFFSET + index * OLDER_LINK_BYTES) as u64).unwrap();
        }
        let version = offset_of!(PageHeader, version) as u64;
        file.write_all_at(&OLDER_VERSION.to_ne_bytes(), version).unwrap();
        let links = pages(&directory)[0].links().unwrap();
        let read: Vec<_> = links.iter().map(|link| (link.peer.as_str(), link.bytes)).collect();
        assert_eq!(read, [("10.0.0.1", 5), ("10.0.0.2", 7)]);
        assert_eq!((links[0].wire_ns, links[0].waited_ns), (9, 0));
        file.write_all_at(&9u32.to_ne_bytes(), version).unwrap();
        assert!(pages(&directory).is_empty(), "a version that is not known is not read");
    }

    #[test]
    fn a_place_gives_the_part_of_its_present_owner() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let peer = "10.0.0.1".parse().unwrap();
        for role in [LinkRole::Asks, LinkRole::Answers, LinkRole::Asks] {
            let link = Link::claim(page, "eth0", peer, role);
            link.record(&Stages::whole(1, 0), 1, Arrival::default());
            let links = pages(&directory)[0].links().unwrap();
            assert_eq!((links.len(), links[0].asks), (1, role == LinkRole::Asks));
        }
    }
}
