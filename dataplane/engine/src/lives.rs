//! In which life each peer was met, and which addresses it had then. Pure.
//!
//! A caller that hands over a raw address says nothing of the life it was told it in. The invariant: an address that a known
//! buffer of an earlier life had is refused after a restart until a caller has been told so, once; what only the new life
//! has cannot be meant otherwise.

mod ranges;

use crate::limits::{PEERS_REMEMBERED_MAX, REGIONS_MAX};
use crate::request::Request;
use perigee_discovery::SegmentDocument;
use ranges::Ranges;
use std::collections::HashMap;

/// All peers by name.
#[derive(Debug, Default)]
pub(crate) struct Lives(HashMap<String, Life>);

#[derive(Debug)]
struct Life {
    epoch: u64,
    /// Every buffer it was seen with.
    buffers: Ranges,
    /// The life before this one, with the buffers of all lives whose end no caller has heard of.
    earlier: Option<(u64, Ranges)>,
    /// No caller has heard yet that the earlier life is over.
    untold: bool,
}

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
        let life = self.0.entry(name.to_owned()).or_insert_with(|| Life {
            epoch,
            buffers: Ranges::default(),
            earlier: None,
            untold: false,
        });
        if life.epoch != epoch {
            life.begin_anew(epoch);
        }
        for buffer in &document.buffers {
            life.buffers.insert(buffer.addr, buffer.length);
        }
        life.refuses(requests)
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
        !self.has_untold()
    }

    /// Whether some caller is still to hear of a restart.
    pub(crate) fn has_untold(&self) -> bool {
        self.0.values().any(|life| life.untold)
    }
}

impl Life {
    /// Whoever asks first may mean the new life only; the next one may still mean the earlier.
    fn begin_anew(&mut self, epoch: u64) {
        let mut ended = std::mem::take(&mut self.buffers);
        let older = self.earlier.take().filter(|_| self.untold);
        // A peer that restarts on and on is remembered by its last life.
        let older = older.filter(|(_, older)| older.len() + ended.len() <= REGIONS_MAX);
        if let Some((_, older)) = older {
            ended.join(&older);
        }
        self.untold = ended.len() > 0;
        self.earlier = Some((std::mem::replace(&mut self.epoch, epoch), ended));
    }

    fn refuses(&self, requests: &[Request]) -> bool {
        let earlier = self.earlier.as_ref().filter(|_| self.untold);
        earlier.is_some_and(|(_, buffers)| touch(requests, buffers))
    }
}

fn touch(requests: &[Request], buffers: &Ranges) -> bool {
    let mut requests = requests.iter();
    requests.any(|request| buffers.touch(request.remote, request.bytes))
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

    #[test]
    fn an_address_of_the_earlier_life_is_refused_also_after_one_of_the_new_life_was_taken() {
        let mut lives = Lives::default();
        lives.meet("p", 1, &document(&[(1000, 100)]), &[]);
        let (old, new) = ([request(1000, 10)], [request(9000, 10)]);
        let both = document(&[(1000, 100), (9000, 100)]);
        assert!(!lives.meet("p", 2, &both, &new));
        assert!(lives.has_untold());
        assert!(!lives.refuse("p", None, &new));
        assert!(lives.refuse("p", None, &old));
        assert!(lives.told("p"));
        assert!(!lives.refuse("p", None, &old));
    }

    #[test]
    fn addresses_of_every_life_that_nobody_heard_the_end_of_are_refused() {
        let mut lives = Lives::default();
        lives.meet("p", 1, &document(&[(1000, 100)]), &[]);
        lives.meet("p", 2, &document(&[(3000, 100)]), &[request(3000, 1)]);
        lives.meet("p", 3, &document(&[(1000, 9000)]), &[request(5000, 1)]);
        assert!(lives.refuse("p", None, &[request(1000, 1)]));
        assert!(lives.refuse("p", None, &[request(3000, 1)]));
        assert!(!lives.refuse("p", None, &[request(5000, 1)]));
        assert!(lives.told("p"));
        lives.meet("p", 4, &document(&[(1000, 9000)]), &[]);
        assert!(lives.refuse("p", None, &[request(5000, 1)]));
        assert!(!lives.refuse("p", None, &[request(10_000, 1)]));
    }
}
