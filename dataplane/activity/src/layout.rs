//! The page as bytes: a header and slots of counters. The layout is an interface between processes
//! of different builds.

use crate::disk_cells::DISK_BYTES;
use crate::limits::{
    DEVICE_BYTES, DISKS, LATENCY_BUCKETS, LINKS, PEER_BYTES, PROCESS_COUNTERS, QUARTERED_POWER,
    QUARTERED_POWERS, RINGS, SLOTS,
};
use crate::ring_cells::RING_BYTES;
use crate::socket_counters::SOCKET_COUNTERS;
use crate::span_ring::SPAN_RING_BYTES;
use perigee_schemas::{Direction, Route};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// First eight bytes of every page.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PERIGEE1");
/// Changes when a reader of this build could no longer read the page.
pub(crate) const VERSION: u32 = 2;
/// The version before, whose links are shorter and whose slots know no stages; readers take both.
pub(crate) const OLDER_VERSION: u32 = 1;

/// Key of a slot: the transfers that it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotKey {
    device: [u8; DEVICE_BYTES],
    /// The way bytes took.
    pub route: Route,
    /// Which way they went.
    pub direction: Direction,
    /// Number of the shard that writes; [`SlotKey::CALLER`] for a caller's own thread.
    pub shard: u16,
}

impl SlotKey {
    /// The "shard" of threads that are none.
    pub const CALLER: u16 = u16::MAX;

    /// A key. Device names are cut at 24 bytes; copies in memory have none.
    pub fn new(device: &str, route: Route, direction: Direction, shard: u16) -> Self {
        Self { device: padded(device), route, direction, shard }
    }

    /// Name of the NIC or disk; empty for copies in memory.
    pub fn device(&self) -> &str {
        let end = self.device.iter().position(|byte| *byte == 0);
        let name = &self.device[..end.unwrap_or(DEVICE_BYTES)];
        match std::str::from_utf8(name) {
            Ok(name) => name,
            Err(error) => std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or(""),
        }
    }

    /// The key as it lies in a slot: shard, route, direction, device.
    pub(crate) fn encode(&self) -> [u64; 4] {
        let head =
            u64::from(self.shard) | (self.route as u64) << 16 | (self.direction as u64) << 24;
        let mut words = [head, 0, 0, 0];
        for (word, bytes) in words[1..].iter_mut().zip(self.device.chunks_exact(8)) {
            let mut chunk = [0; 8];
            chunk.copy_from_slice(bytes);
            *word = u64::from_le_bytes(chunk);
        }
        words
    }

    /// The key of a slot, or `None` if a newer build wrote a route that this one does not know.
    pub(crate) fn decode(words: [u64; 4]) -> Option<Self> {
        let route = (words[0] >> 16) as u8;
        let direction = (words[0] >> 24) as u8;
        let mut device = [0; DEVICE_BYTES];
        for (bytes, word) in device.chunks_exact_mut(8).zip(&words[1..]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let device = match std::str::from_utf8(&device) {
            Ok(name) if !name.contains(is_unprintable) => device,
            _ => padded(&text(&device)),
        };
        Some(Self {
            device,
            route: Route::from_number(route)?,
            direction: Direction::from_number(direction)?,
            shard: words[0] as u16,
        })
    }
}

/// The start of a page.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PageHeader {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) header_bytes: AtomicU32,
    pub(crate) slot_bytes: AtomicU32,
    pub(crate) slots: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// Slots that were ever claimed; those behind are all zero.
    pub(crate) used: AtomicU32,
    /// Name of the program, zero-padded.
    pub(crate) program: [AtomicU64; 4],
    /// Room for links behind the slots. Zero in pages of older builds, which have none.
    pub(crate) links: AtomicU32,
    /// Links that were ever claimed.
    pub(crate) links_used: AtomicU32,
    /// Number of the network namespace that names of NICs belong to. Zero in pages of older builds,
    /// which do not say.
    pub(crate) network: AtomicU64,
    /// Number of the control group of version 2 in which the page was made. Zero if it is not
    /// known, and in pages of older builds.
    pub(crate) group: AtomicU64,
    /// Room for rings of marks behind the links. Zero in pages of older builds, which have none.
    pub(crate) rings: AtomicU32,
    /// Rings that were ever claimed.
    pub(crate) rings_used: AtomicU32,
    /// Batches of threads that found no ring; a few may be missing, as many threads count them.
    pub(crate) marks_lost: AtomicU64,
    /// Room for spans behind the rings. Zero in pages of older builds, which have none.
    pub(crate) spans: AtomicU64,
    /// Finer buckets of each slot behind the spans. Zero in pages of older builds, which have none.
    pub(crate) quarters: AtomicU64,
    /// Room for disks behind those buckets. Zero in pages of older builds, which have none.
    pub(crate) disks: AtomicU32,
    /// Disks that were ever claimed.
    pub(crate) disks_used: AtomicU32,
    /// What the process counts as a whole, in the order of [`crate::ProcessReading`]; zero in pages
    /// of older builds.
    pub(crate) process: [AtomicU64; PROCESS_COUNTERS],
}

/// The counters of one writer for one key.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Cells {
    pub(crate) key: [AtomicU64; 4],
    pub(crate) operations: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) latency_ns: AtomicU64,
    pub(crate) queue_ns: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) retries: AtomicU64,
    /// Operations under way now.
    pub(crate) depth: AtomicU64,
    pub(crate) buckets: [AtomicU64; LATENCY_BUCKETS],
    /// Parts of `latency_ns` that peers measured at their end; zero in pages of older builds.
    pub(crate) waited_ns: AtomicU64,
    pub(crate) copied_ns: AtomicU64,
    pub(crate) disk_ns: AtomicU64,
}

/// Latencies of one slot, finer: four buckets for each power of two, of those that matter.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct QuarterCells(pub(crate) [AtomicU64; QUARTERS]);

/// The NIC and the peer of a connection: device, then the peer's address as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LinkKey(pub(crate) [u8; DEVICE_BYTES + PEER_BYTES]);

impl LinkKey {
    pub(crate) fn new(device: &str, peer: IpAddr) -> Self {
        let mut bytes = [0; DEVICE_BYTES + PEER_BYTES];
        let (head, tail) = bytes.split_at_mut(DEVICE_BYTES);
        fill(head, device);
        fill(tail, &peer.to_string());
        Self(bytes)
    }

    pub(crate) fn encode(&self) -> [u64; LINK_KEY_WORDS] {
        let mut words = [0; LINK_KEY_WORDS];
        for (word, bytes) in words.iter_mut().zip(self.0.chunks_exact(8)) {
            let mut chunk = [0; 8];
            chunk.copy_from_slice(bytes);
            *word = u64::from_le_bytes(chunk);
        }
        words
    }

    pub(crate) fn decode(words: [u64; LINK_KEY_WORDS]) -> Self {
        let mut bytes = [0; DEVICE_BYTES + PEER_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Self(bytes)
    }

    /// Device and peer. Another process wrote them: what is no text is replaced.
    pub(crate) fn names(&self) -> (String, String) {
        let (device, peer) = self.0.split_at(DEVICE_BYTES);
        (text(device), text(peer))
    }
}

fn padded(name: &str) -> [u8; DEVICE_BYTES] {
    let mut bytes = [0; DEVICE_BYTES];
    fill(&mut bytes, name);
    bytes
}

fn fill(bytes: &mut [u8], text: &str) {
    for (slot, byte) in bytes.iter_mut().zip(text.bytes()) {
        *slot = byte;
    }
}

/// What another process wrote as text, up to the first zero. Whatever would move a terminal's
/// cursor or begin a line of its own in a log is replaced.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())])
        .replace(is_unprintable, "\u{fffd}")
}

/// Control characters, and those that turn the direction of what follows or begin a line.
fn is_unprintable(letter: char) -> bool {
    let turns = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}');
    letter.is_control() || turns || matches!(letter, '\u{2066}'..='\u{2069}')
}

const LINK_KEY_WORDS: usize = (DEVICE_BYTES + PEER_BYTES) / 8;

/// Counters of one connection.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct LinkCells {
    pub(crate) key: [AtomicU64; LINK_KEY_WORDS],
    pub(crate) operations: AtomicU64,
    pub(crate) wire_ns: AtomicU64,
    pub(crate) peer_ns: AtomicU64,
    pub(crate) retransmits: AtomicU64,
    pub(crate) round_trip_us: AtomicU64,
    pub(crate) round_trip_min_us: AtomicU64,
    pub(crate) window_segments: AtomicU64,
    pub(crate) delivery_bytes_per_second: AtomicU64,
    /// When the socket was asked last, in milliseconds since 1970; 0 when the connection is over.
    pub(crate) looked_ms: AtomicU64,
    /// Payload bytes of all exchanges; zero in pages of older builds, as all that follows.
    pub(crate) bytes: AtomicU64,
    /// 1 if this side asks and the peer answers.
    pub(crate) asks: AtomicU64,
    /// Parts of `wire_ns` that the peer measured at its end; as all that follows, since version 2.
    pub(crate) waited_ns: AtomicU64,
    pub(crate) copied_ns: AtomicU64,
    pub(crate) disk_ns: AtomicU64,
    /// Payload that came behind an answer, and how long it took from that answer on.
    pub(crate) arrived_bytes: AtomicU64,
    pub(crate) arrived_ns: AtomicU64,
    /// What the kernel counts of the socket, in the order of [`crate::socket_counters`].
    pub(crate) socket: [AtomicU64; SOCKET_COUNTERS],
    /// The wait for an answer that is under way, as [`crate::LinkWait`] reads it; 0 for none.
    pub(crate) wait: AtomicU64,
}

impl LinkCells {
    /// Makes the place that of another connection, from zero.
    pub(crate) fn begin(&self, key: &LinkKey) {
        let counters = [
            &self.operations,
            &self.wire_ns,
            &self.peer_ns,
            &self.retransmits,
            &self.looked_ms,
            &self.bytes,
            &self.waited_ns,
            &self.copied_ns,
            &self.disk_ns,
            &self.arrived_bytes,
            &self.arrived_ns,
            &self.wait,
        ];
        for counter in counters.into_iter().chain(&self.socket) {
            counter.store(0, Ordering::Relaxed);
        }
        for (cell, word) in self.key.iter().zip(key.encode()) {
            cell.store(word, Ordering::Relaxed);
        }
    }
}

pub(crate) const HEADER_BYTES: usize = 4096;
pub(crate) const SLOT_BYTES: usize = size_of::<Cells>();
pub(crate) const LINKS_OFFSET: usize = HEADER_BYTES + SLOTS * SLOT_BYTES;
pub(crate) const LINK_BYTES: usize = size_of::<LinkCells>();
/// Bytes of a link in a page of [`OLDER_VERSION`].
pub(crate) const OLDER_LINK_BYTES: usize = 192;
pub(crate) const RINGS_OFFSET: usize = LINKS_OFFSET + LINKS * LINK_BYTES;
pub(crate) const SPANS_OFFSET: usize = RINGS_OFFSET + RINGS * RING_BYTES;
pub(crate) const QUARTERS_OFFSET: usize = SPANS_OFFSET + SPAN_RING_BYTES;
pub(crate) const QUARTERS: usize = 4 * QUARTERED_POWERS;
pub(crate) const QUARTERS_BYTES: usize = size_of::<QuarterCells>();
pub(crate) const DISKS_OFFSET: usize = QUARTERS_OFFSET + SLOTS * QUARTERS_BYTES;
pub(crate) const PAGE_BYTES: usize = DISKS_OFFSET + DISKS * DISK_BYTES;

const _: () = assert!(size_of::<PageHeader>() <= HEADER_BYTES);
const _: () = assert!(SLOT_BYTES == 448 && DEVICE_BYTES == 24);
const _: () = assert!(LINK_BYTES == 320 && PEER_BYTES == 40 && LINKS_OFFSET.is_multiple_of(64));
const _: () = assert!(RINGS_OFFSET.is_multiple_of(64) && SPANS_OFFSET.is_multiple_of(64));
const _: () = assert!(DISKS_OFFSET.is_multiple_of(64) && DISK_BYTES.is_multiple_of(64));
const _: () = assert!(QUARTERS_OFFSET.is_multiple_of(64) && QUARTERS_BYTES == 8 * QUARTERS);

/// Bucket of a duration in nanoseconds.
#[inline]
pub(crate) fn bucket(nanoseconds: u64) -> usize {
    let log2 = (u64::BITS - 1 - (nanoseconds | 1).leading_zeros()) as usize;
    log2.min(LATENCY_BUCKETS - 1)
}

/// The finer bucket of a duration in nanoseconds, if there is one.
#[inline]
pub(crate) fn quarter(nanoseconds: u64) -> Option<usize> {
    let power = bucket(nanoseconds).checked_sub(QUARTERED_POWER)?;
    let quarter = (nanoseconds >> (power + QUARTERED_POWER - 2)) & 3;
    (power < QUARTERED_POWERS).then_some(4 * power + quarter as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_the_page() {
        for route in Route::ALL {
            for direction in Direction::ALL {
                let key = SlotKey::new("mlx5_bond_0", route, direction, 7);
                assert_eq!(SlotKey::decode(key.encode()), Some(key));
                assert_eq!(key.device(), "mlx5_bond_0");
            }
        }
    }

    #[test]
    fn links_survive_the_page_with_the_longest_address() {
        let peer = "1111:2222:3333:4444:5555:6666:7777:8888";
        let key = LinkKey::new("mlx5_bond_0", peer.parse().unwrap());
        assert_eq!(LinkKey::decode(key.encode()), key);
        assert_eq!(key.names(), ("mlx5_bond_0".to_owned(), peer.to_owned()));
    }

    #[test]
    fn long_names_are_cut_and_cut_characters_left_out() {
        let long = "a-device-name-of-22-by-e\u{e9}";
        assert_eq!(SlotKey::new(long, Route::Tcp, Direction::Read, 0).device(), &long[..24]);
        let split = "a-device-name-of-22-byt\u{e9}";
        assert_eq!(SlotKey::new(split, Route::Tcp, Direction::Read, 0).device(), &split[..23]);
    }

    #[test]
    fn what_others_wrote_begins_no_line_and_moves_no_cursor() {
        let forged = "10.0.0.9\n2026 ERROR \u{1b}[2J\u{202e}";
        let shown = "10.0.0.9\u{fffd}2026 ERROR \u{fffd}[2J\u{fffd}";
        assert_eq!(text(forged.as_bytes()), shown);
        assert_eq!(text(b"perigee\0\n"), "perigee");
        let mut bytes = [0; DEVICE_BYTES + PEER_BYTES];
        fill(&mut bytes, "eth0\r");
        fill(&mut bytes[DEVICE_BYTES..], forged);
        let names = LinkKey(bytes).names();
        assert_eq!(names, ("eth0\u{fffd}".to_owned(), shown.to_owned()));
        let key = SlotKey::new("eth0\n\u{1b}[31m", Route::Tcp, Direction::Read, 0);
        let read = SlotKey::decode(key.encode()).unwrap();
        assert_eq!(read.device(), "eth0\u{fffd}\u{fffd}[31m");
    }

    #[test]
    fn unknown_routes_are_no_key() {
        assert_eq!(SlotKey::decode([200 << 16, 0, 0, 0]), None);
    }

    #[test]
    fn buckets_are_powers_of_two() {
        let found = [0, 1, 2, 3, 4, 1023, 1024, u64::MAX].map(bucket);
        assert_eq!(found, [0, 0, 1, 1, 2, 9, 10, LATENCY_BUCKETS - 1]);
    }

    #[test]
    fn four_finer_buckets_share_a_power_of_two() {
        let last = (1 << 34) - 1;
        let found = [1023, 1024, 1279, 1280, 1536, 2047, 2048, 3000, last, last + 1, u64::MAX];
        let quarters = found.map(quarter);
        let inner = [0, 0, 1, 2, 3, 4, 5, QUARTERS - 1].map(Some);
        assert_eq!(
            (quarters[0], &quarters[1..9], &quarters[9..]),
            (None, &inner[..], &[None; 2][..])
        );
        for nanoseconds in (0..64).map(|power| 1u64 << power).chain(found) {
            let power = quarter(nanoseconds).map(|quarter| quarter / 4 + QUARTERED_POWER);
            assert!(power.is_none_or(|power| power == bucket(nanoseconds)), "{nanoseconds}");
        }
    }
}
