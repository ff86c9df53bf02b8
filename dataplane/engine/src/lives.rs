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
    buffers: BTreeSet<(u64, u64)>,
}

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
            buffers: BTreeSet::new(),
        });
        if life.epoch == epoch {
            life.buffers.extend(buffers);
            return false;
        }
        let may_be_old = requests.iter().any(|request| life.touches(request));
        life.epoch = epoch;
        life.buffers = buffers.collect();
        may_be_old
    }
}

impl Life {
    fn touches(&self, request: &Request) -> bool {
        let end = request.remote.saturating_add(request.bytes);
        let reaches = |(address, bytes): &(u64, u64)| {
            *address < end && request.remote < address.saturating_add(*bytes)
        };
        self.buffers.iter().any(reaches)
    }
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
