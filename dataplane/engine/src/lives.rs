//! In which life each peer was met, and which addresses it had then. Pure.
//!
//! A caller that hands over a raw address says nothing of the life it was told it in. The invariant: an address that a known
//! buffer of an earlier life had is refused once after a restart; what only the new life has cannot be meant otherwise.

use crate::limits::PEERS_REMEMBERED_MAX;
use crate::request::Request;
use perigee_discovery::SegmentDocument;
use std::collections::{BTreeSet, HashMap};

/// All peers by name.
#[derive(Debug, Default)]
pub(crate) struct Lives(HashMap<String, Life>);

#[derive(Debug)]
struct Life {
    epoch: u64,
    /// First byte and length of every buffer it was seen with.
    buffers: Buffers,
    /// The life before this one.
    earlier: Option<(u64, Buffers)>,
}

/// First byte and length of buffers.
type Buffers = BTreeSet<(u64, u64)>;

impl Lives {
    /// Notes a peer's document. True if it has restarted and some request may be meant for its earlier life; asked again,
    /// the same request is taken to be meant for the new one.
    pub(crate) fn meet(
        &mut self,
        name: &str,
        epoch: u64,
        document: &SegmentDocument,
        requests: &[Request],
    ) -> bool {
        if self.0.len() >= PEERS_REMEMBERED_MAX && !self.0.contains_key(name) {
            self.0.clear();
        }
        let buffers = document.buffers.iter();
        let buffers = buffers.map(|buffer| (buffer.addr, buffer.length));
        let life = self.0.entry(name.to_owned()).or_insert_with(|| Life {
            epoch,
            buffers: Buffers::new(),
            earlier: None,
        });
        if life.epoch == epoch {
            life.buffers.extend(buffers);
            return false;
        }
        let earlier = std::mem::replace(&mut life.buffers, buffers.collect());
        let may_be_old = touch(requests, &earlier);
        life.earlier = Some((std::mem::replace(&mut life.epoch, epoch), earlier));
        may_be_old
    }

    /// Whether requests that were made while a peer was in the life `met` may be meant for that one, and it is over.
    pub(crate) fn are_stale(&self, name: &str, met: u64, requests: &[Request]) -> bool {
        let Some(life) = self.0.get(name).filter(|life| life.epoch != met) else {
            return false;
        };
        match &life.earlier {
            Some((epoch, buffers)) if *epoch == met => touch(requests, buffers),
            // Too long ago to tell.
            _ => true,
        }
    }
}

fn touch(requests: &[Request], buffers: &Buffers) -> bool {
    requests.iter().any(|request| {
        let end = request.remote.saturating_add(request.bytes);
        let reaches = |(address, bytes): &(u64, u64)| {
            *address < end && request.remote < address.saturating_add(*bytes)
        };
        buffers.iter().any(reaches)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Direction;
    use perigee_discovery::BufferEntry;

    fn document(buffers: &[(u64, u64)]) -> SegmentDocument {
        let entry = |(addr, length): &(u64, u64)| BufferEntry {
            addr: *addr,
            length: *length,
            ..BufferEntry::default()
        };
        SegmentDocument {
            buffers: buffers.iter().map(entry).collect(),
            ..SegmentDocument::default()
        }
    }

    fn request(remote: u64, bytes: u64) -> Request {
        Request {
            direction: Direction::Write,
            local: 1,
            remote,
            bytes,
        }
    }

    #[test]
    fn an_address_of_the_earlier_life_is_refused_once() {
        let mut lives = Lives::default();
        let old = [(1000, 100), (5000, 100)];
        assert!(!lives.meet("p", 1, &document(&old), &[request(1000, 100)]));
        let both = document(&[(1000, 100), (9000, 100)]);
        assert!(lives.meet("p", 2, &both, &[request(1099, 1)]));
        assert!(!lives.meet("p", 2, &both, &[request(1099, 1)]));
    }

    #[test]
    fn requests_that_were_under_way_at_a_restart_stay_stale_however_often_others_ask() {
        let mut lives = Lives::default();
        lives.meet("p", 1, &document(&[(1000, 100)]), &[]);
        let (old, new) = ([request(1000, 10)], [request(9000, 10)]);
        assert!(!lives.are_stale("p", 1, &old));
        let second = document(&[(1000, 100), (9000, 100)]);
        lives.meet("p", 2, &second, &old);
        for _ in 0..2 {
            assert!(lives.are_stale("p", 1, &old));
            assert!(!lives.are_stale("p", 1, &new));
            assert!(!lives.are_stale("p", 2, &old));
        }
        lives.meet("p", 3, &second, &[]);
        assert!(
            lives.are_stale("p", 1, &new),
            "nobody knows what that life had"
        );
        assert!(lives.are_stale("p", 2, &new));
    }

    #[test]
    fn an_address_that_only_the_new_life_has_is_taken_at_once() {
        let mut lives = Lives::default();
        lives.meet("p", 1, &document(&[(1000, 100)]), &[]);
        lives.meet("p", 1, &document(&[(3000, 100)]), &[]);
        let new = document(&[(9000, 100)]);
        assert!(!lives.meet("p", 2, &new, &[request(9000, 100), request(1100, 1)]));
        let mut lives = Lives::default();
        lives.meet("p", 1, &document(&[(1000, 100)]), &[]);
        lives.meet("p", 1, &document(&[(3000, 100)]), &[]);
        assert!(lives.meet("p", 2, &new, &[request(9000, 100), request(3050, 1)]));
    }
}
