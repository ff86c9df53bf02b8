//! In which life each peer was met, and which addresses it had then. Pure.
//!
//! A caller that hands over a raw address says nothing of the life it was told it in. The invariant: an address that a known
//! buffer of an earlier life had is refused after a restart until a caller has been told so, once; what only the new life
//! has cannot be meant otherwise.

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
    /// Requests that may be meant for that life were refused, and no caller has heard of it yet.
    untold: bool,
}

/// First byte and length of buffers.
type Buffers = BTreeSet<(u64, u64)>;

impl Lives {
    /// Notes a peer's document. True if it has restarted and some request may be meant for its earlier life.
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
            untold: false,
        });
        if life.epoch == epoch {
            life.buffers.extend(buffers);
            return life.refuses(requests);
        }
        let earlier = std::mem::replace(&mut life.buffers, buffers.collect());
        life.untold = touch(requests, &earlier);
        life.earlier = Some((std::mem::replace(&mut life.epoch, epoch), earlier));
        life.untold
    }

    /// Whether requests may be meant for a life that is over: that in which the peer was `met` when they were first tried,
    /// or the last one, as long as no caller knows of its end.
    pub(crate) fn refuse(&mut self, name: &str, met: Option<u64>, requests: &[Request]) -> bool {
        let Some(life) = self.0.get_mut(name) else {
            return false;
        };
        let refused = match (met, &life.earlier) {
            (Some(met), Some((epoch, buffers))) if met == *epoch => touch(requests, buffers),
            // Too long ago to tell.
            (Some(met), _) if met != life.epoch => true,
            _ => life.refuses(requests),
        };
        life.untold |= refused;
        refused
    }

    /// A caller has heard that a peer has restarted: from now on it means the present life. True if no other restart is
    /// still to be told.
    pub(crate) fn told(&mut self, name: &str) -> bool {
        if let Some(life) = self.0.get_mut(name) {
            life.untold = false;
        }
        !self.0.values().any(|life| life.untold)
    }
}

impl Life {
    fn refuses(&self, requests: &[Request]) -> bool {
        let earlier = self.earlier.as_ref().filter(|_| self.untold);
        earlier.is_some_and(|(_, buffers)| touch(requests, buffers))
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
        assert!(lives.meet("p", 2, &both, &[request(1099, 1)]));
        assert!(!lives.meet("p", 2, &both, &[request(9000, 1)]));
        assert!(lives.told("p"));
        assert!(!lives.meet("p", 2, &both, &[request(1099, 1)]));
    }

    #[test]
    fn requests_that_were_under_way_at_a_restart_are_refused_however_often_others_ask() {
        let mut lives = Lives::default();
        lives.meet("p", 1, &document(&[(1000, 100)]), &[]);
        let (old, new) = ([request(1000, 10)], [request(9000, 10)]);
        assert!(!lives.refuse("p", Some(1), &old));
        let second = document(&[(1000, 100), (9000, 100)]);
        assert!(
            !lives.meet("p", 2, &second, &new),
            "somebody means the new life"
        );
        for _ in 0..2 {
            assert!(lives.refuse("p", Some(1), &old));
            assert!(!lives.refuse("p", Some(1), &new));
            // Who submits now may not have heard of it, although it never met the earlier life.
            assert!(lives.refuse("p", None, &old));
            assert!(!lives.refuse("p", None, &new));
        }
        assert!(lives.told("p"));
        assert!(!lives.refuse("p", None, &old));
        assert!(
            lives.refuse("p", Some(1), &old),
            "this one was tried before"
        );
        lives.meet("p", 3, &second, &[]);
        assert!(
            lives.refuse("p", Some(1), &new),
            "nobody knows what that life had"
        );
        assert!(!lives.refuse("q", Some(1), &new));
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
