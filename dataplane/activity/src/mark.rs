//! A finished batch as the page shows it. The layout is an interface between processes of different
//! builds.

use crate::layout::text;
use crate::limits::{SLOW_CLASSES, SLOW_MARK_NS};
use crate::ring_cells::MARK_WORDS;
use perigee_schemas::{Direction, Route};

const NIC_BYTES: usize = 24;
const PEER_BYTES: usize = 64;
const TENANT_BYTES: usize = 32;
const NUMBERS: usize = 8;

const _: () = assert!(MARK_WORDS == NUMBERS + (NIC_BYTES + PEER_BYTES + TENANT_BYTES) / 8);

/// A finished batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchMark {
    /// Operations of the batch.
    pub operations: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// From submission to the first byte on its way, and without a core to take the answer.
    pub queue_ns: u64,
    /// On the wire, the peer's answer included.
    pub wire_ns: u64,
    /// On a disk of this host.
    pub disk_ns: u64,
    /// The part of `wire_ns` that was the peer's own, as it says. 0 over RDMA, where the peer's NIC
    /// answers and no program of it.
    pub peer_ns: u64,
    /// Milliseconds since 1970 when it ended; 0 for a batch that was not slow.
    pub ended_ms: u64,
    /// Status code, 0 when all went well.
    pub status: i32,
    route: u8,
    direction: u8,
    nic: [u8; NIC_BYTES],
    peer: [u8; PEER_BYTES],
    tenant: [u8; TENANT_BYTES],
}

impl BatchMark {
    /// A mark of a batch without numbers. Names that are too long are cut.
    pub fn new(route: Route, direction: Direction, nic: &str, peer: &str, tenant: &str) -> Self {
        Self {
            operations: 0,
            bytes: 0,
            queue_ns: 0,
            wire_ns: 0,
            disk_ns: 0,
            peer_ns: 0,
            ended_ms: 0,
            status: 0,
            route: route as u8,
            direction: direction as u8,
            nic: padded(nic),
            peer: padded(peer),
            tenant: padded(tenant),
        }
    }

    /// From submission to its end. Numbers of another process may be anything.
    pub fn total_ns(&self) -> u64 {
        self.queue_ns.saturating_add(self.wire_ns).saturating_add(self.disk_ns)
    }

    /// The way bytes took; `None` for one that this build does not know.
    pub fn route(&self) -> Option<Route> {
        Route::from_number(self.route)
    }

    /// Which way they went.
    pub fn direction(&self) -> Option<Direction> {
        Direction::from_number(self.direction)
    }

    /// Name of the NIC or disk; empty for copies in memory.
    pub fn nic(&self) -> String {
        text(&self.nic)
    }

    /// The other end.
    pub fn peer(&self) -> String {
        text(&self.peer)
    }

    /// Name space of its objects.
    pub fn tenant(&self) -> String {
        text(&self.tenant)
    }

    /// How slow it is, if it is slow: a class of [`SLOW_CLASSES`].
    pub(crate) fn slow_class(&self) -> Option<usize> {
        let total_ns = self.total_ns();
        (0..SLOW_CLASSES).rev().find(|class| total_ns >= slow_class_begin_ns(*class))
    }

    pub(crate) fn encode(&self) -> [u64; MARK_WORDS] {
        let kind = u64::from(self.route) | u64::from(self.direction) << 8;
        let mut words = [0; MARK_WORDS];
        words[..NUMBERS].copy_from_slice(&[
            self.operations,
            self.bytes,
            self.queue_ns,
            self.wire_ns,
            self.disk_ns,
            self.peer_ns,
            self.ended_ms,
            kind | u64::from(self.status.cast_unsigned()) << 32,
        ]);
        let (nic, rest) = words[NUMBERS..].split_at_mut(NIC_BYTES / 8);
        let (peer, tenant) = rest.split_at_mut(PEER_BYTES / 8);
        pack(nic, &self.nic);
        pack(peer, &self.peer);
        pack(tenant, &self.tenant);
        words
    }

    pub(crate) fn decode(words: &[u64; MARK_WORDS]) -> Self {
        let kind = words[7];
        let (nic, rest) = words[NUMBERS..].split_at(NIC_BYTES / 8);
        let (peer, tenant) = rest.split_at(PEER_BYTES / 8);
        Self {
            operations: words[0],
            bytes: words[1],
            queue_ns: words[2],
            wire_ns: words[3],
            disk_ns: words[4],
            peer_ns: words[5],
            ended_ms: words[6],
            status: ((kind >> 32) as u32).cast_signed(),
            route: kind as u8,
            direction: (kind >> 8) as u8,
            nic: unpack(nic),
            peer: unpack(peer),
            tenant: unpack(tenant),
        }
    }
}

/// From how many nanoseconds on a batch is of a class.
pub fn slow_class_begin_ns(class: usize) -> u64 {
    SLOW_MARK_NS << (2 * class.min(SLOW_CLASSES - 1))
}

/// Zero-filled.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let length = text.len().min(N);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

fn pack(words: &mut [u64], bytes: &[u8]) {
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*chunk);
    }
}

fn unpack<const N: usize>(words: &[u64]) -> [u8; N] {
    let mut bytes = [0; N];
    for (chunk, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *chunk = word.to_le_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_the_page() {
        let mut mark = BatchMark::new(Route::Rdma, Direction::Write, "mlx5_0", "10.0.0.9:1", "t");
        (mark.operations, mark.bytes, mark.queue_ns, mark.wire_ns) = (4, 1 << 20, 7, 90_000);
        (mark.disk_ns, mark.peer_ns, mark.ended_ms, mark.status) = (3, 40_000, 1 << 40, -711);
        let read = BatchMark::decode(&mark.encode());
        assert_eq!(read, mark);
        assert_eq!((read.route(), read.direction()), (Some(Route::Rdma), Some(Direction::Write)));
        assert_eq!((read.nic().as_str(), read.peer().as_str()), ("mlx5_0", "10.0.0.9:1"));
        assert_eq!((read.tenant().as_str(), read.total_ns()), ("t", 90_010));
    }

    #[test]
    fn slow_batches_are_of_classes_by_powers_of_four() {
        let of = |ms: u64| {
            let mut mark = BatchMark::new(Route::Tcp, Direction::Read, "", "", "");
            mark.wire_ns = ms * 1_000_000;
            mark.slow_class()
        };
        assert_eq!(
            [0, 1, 3, 4, 200, 1023, 1024, 99_999].map(of),
            [None, Some(0), Some(0), Some(1), Some(3), Some(4), Some(5), Some(5)]
        );
    }

    #[test]
    fn names_that_are_too_long_are_cut() {
        let long = "x".repeat(200);
        let mark = BatchMark::new(Route::Tcp, Direction::Read, &long, &long, &long);
        assert_eq!((mark.nic().len(), mark.peer().len(), mark.tenant().len()), (24, 64, 32));
    }

    #[test]
    fn what_another_process_wrote_is_made_harmless() {
        let mark = BatchMark::decode(&[u64::MAX; MARK_WORDS]);
        assert_eq!((mark.route(), mark.direction()), (None, None));
        assert_eq!(mark.total_ns(), u64::MAX);
        assert!(mark.nic().chars().all(|letter| letter == '\u{fffd}'));
    }
}
