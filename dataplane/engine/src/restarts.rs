//! Which run of each peer was met, and which addresses it had then. Pure.
//!
//! A caller that hands over a raw address does not say from which run of the peer it is. The
//! invariant: an address that a known buffer of an earlier run had is refused after a restart
//! until a caller has got that error, once; what only the new run has cannot be meant
//! otherwise.

mod ranges;

use crate::limits::{PEERS_REMEMBERED_MAX, REGIONS_MAX};
use crate::request::TransferRequest;
use perigee_discovery::SegmentDocument;
use ranges::AddressRanges;
use std::collections::HashMap;

/// All peers by name.
#[derive(Debug, Default)]
pub(crate) struct Restarts(HashMap<String, PeerRun>);

#[derive(Debug)]
struct PeerRun {
    epoch: u64,
    /// Every buffer it was seen with.
    buffers: AddressRanges,
    /// The run before this one, with the buffers of all runs whose end was not reported to a
    /// caller.
    earlier: Option<(u64, AddressRanges)>,
    /// No caller has got the error yet that the earlier run is over.
    unreported: bool,
}

impl Restarts {
    /// Notes a peer's document. True if it has restarted and some request may be meant for its
    /// earlier run.
    pub(crate) fn meet(
        &mut self,
        name: &str,
        epoch: u64,
        document: &SegmentDocument,
        requests: &[TransferRequest],
    ) -> bool {
        if self.0.len() >= PEERS_REMEMBERED_MAX && !self.0.contains_key(name) {
            self.0.clear();
        }
        let known = self.0.entry(name.to_owned()).or_insert_with(|| PeerRun {
            epoch,
            buffers: AddressRanges::default(),
            earlier: None,
            unreported: false,
        });
        if known.epoch != epoch {
            known.start_over(epoch);
        }
        for buffer in &document.buffers {
            known.buffers.insert(buffer.addr, buffer.length);
        }
        known.refuses(requests)
    }

    /// Whether requests may be meant for a run that is over: that in which the peer was `met` when
    /// they were first tried, or the last one, as long as no caller knows of its end.
    pub(crate) fn refuse(
        &mut self,
        name: &str,
        met: Option<u64>,
        requests: &[TransferRequest],
    ) -> bool {
        let Some(known) = self.0.get_mut(name) else {
            return false;
        };
        let refused = match (met, &known.earlier) {
            (Some(met), Some((epoch, buffers))) if met == *epoch => touch(requests, buffers),
            // Too long ago to tell.
            (Some(met), _) if met != known.epoch => true,
            _ => known.refuses(requests),
        };
        known.unreported |= refused;
        refused
    }

    /// A caller has heard that a peer has restarted: from now on it means the present run. True if
    /// no other restart is still to be reported.
    pub(crate) fn note_reported(&mut self, name: &str) -> bool {
        if let Some(known) = self.0.get_mut(name) {
            known.unreported = false;
        }
        !self.has_unreported()
    }

    /// Whether some caller is still to hear of a restart.
    pub(crate) fn has_unreported(&self) -> bool {
        self.0.values().any(|known| known.unreported)
    }
}

impl PeerRun {
    /// The first call may mean the new run only; the next one may still mean the earlier.
    fn start_over(&mut self, epoch: u64) {
        let mut ended = std::mem::take(&mut self.buffers);
        let older = self.earlier.take().filter(|_| self.unreported);
        // A peer that restarts on and on is remembered by its last run.
        let older = older.filter(|(_, older)| older.len() + ended.len() <= REGIONS_MAX);
        if let Some((_, older)) = older {
            ended.join(&older);
        }
        self.unreported = ended.len() > 0;
        self.earlier = Some((std::mem::replace(&mut self.epoch, epoch), ended));
    }

    fn refuses(&self, requests: &[TransferRequest]) -> bool {
        let earlier = self.earlier.as_ref().filter(|_| self.unreported);
        earlier.is_some_and(|(_, buffers)| touch(requests, buffers))
    }
}

fn touch(requests: &[TransferRequest], buffers: &AddressRanges) -> bool {
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

    fn request(remote: u64, bytes: u64) -> TransferRequest {
        TransferRequest { direction: Direction::Write, local: 1, remote, bytes }
    }

    #[test]
    fn an_address_of_the_earlier_life_is_refused_once() {
        let mut restarts = Restarts::default();
        let old = [(1000, 100), (5000, 100)];
        assert!(!restarts.meet("p", 1, &document(&old), &[request(1000, 100)]));
        let both = document(&[(1000, 100), (9000, 100)]);
        assert!(restarts.meet("p", 2, &both, &[request(1099, 1)]));
        assert!(restarts.meet("p", 2, &both, &[request(1099, 1)]));
        assert!(!restarts.meet("p", 2, &both, &[request(9000, 1)]));
        assert!(restarts.note_reported("p"));
        assert!(!restarts.meet("p", 2, &both, &[request(1099, 1)]));
    }

    #[test]
    fn requests_that_were_under_way_at_a_restart_are_refused_however_often_others_ask() {
        let mut restarts = Restarts::default();
        restarts.meet("p", 1, &document(&[(1000, 100)]), &[]);
        let (old, new) = ([request(1000, 10)], [request(9000, 10)]);
        assert!(!restarts.refuse("p", Some(1), &old));
        let second = document(&[(1000, 100), (9000, 100)]);
        assert!(!restarts.meet("p", 2, &second, &new), "a caller means the new run");
        for _ in 0..2 {
            assert!(restarts.refuse("p", Some(1), &old));
            assert!(!restarts.refuse("p", Some(1), &new));
            // Who submits now may not have heard of it, although it never met the earlier run.
            assert!(restarts.refuse("p", None, &old));
            assert!(!restarts.refuse("p", None, &new));
        }
        assert!(restarts.note_reported("p"));
        assert!(!restarts.refuse("p", None, &old));
        assert!(restarts.refuse("p", Some(1), &old), "this one was tried before");
        restarts.meet("p", 3, &second, &[]);
        assert!(restarts.refuse("p", Some(1), &new), "what that run had is unknown");
        assert!(!restarts.refuse("q", Some(1), &new));
    }

    #[test]
    fn an_address_that_only_the_new_life_has_is_taken_at_once() {
        let mut restarts = Restarts::default();
        restarts.meet("p", 1, &document(&[(1000, 100)]), &[]);
        restarts.meet("p", 1, &document(&[(3000, 100)]), &[]);
        let new = document(&[(9000, 100)]);
        assert!(!restarts.meet("p", 2, &new, &[request(9000, 100), request(1100, 1)]));
        let mut restarts = Restarts::default();
        restarts.meet("p", 1, &document(&[(1000, 100)]), &[]);
        restarts.meet("p", 1, &document(&[(3000, 100)]), &[]);
        assert!(restarts.meet("p", 2, &new, &[request(9000, 100), request(3050, 1)]));
    }

    #[test]
    fn old_addresses_stay_refused_after_a_new_one_was_taken() {
        let mut restarts = Restarts::default();
        restarts.meet("p", 1, &document(&[(1000, 100)]), &[]);
        let (old, new) = ([request(1000, 10)], [request(9000, 10)]);
        let both = document(&[(1000, 100), (9000, 100)]);
        assert!(!restarts.meet("p", 2, &both, &new));
        assert!(restarts.has_unreported());
        assert!(!restarts.refuse("p", None, &new));
        assert!(restarts.refuse("p", None, &old));
        assert!(restarts.note_reported("p"));
        assert!(!restarts.refuse("p", None, &old));
    }

    #[test]
    fn addresses_of_every_run_whose_end_was_not_reported_are_refused() {
        let mut restarts = Restarts::default();
        restarts.meet("p", 1, &document(&[(1000, 100)]), &[]);
        restarts.meet("p", 2, &document(&[(3000, 100)]), &[request(3000, 1)]);
        restarts.meet("p", 3, &document(&[(1000, 9000)]), &[request(5000, 1)]);
        assert!(restarts.refuse("p", None, &[request(1000, 1)]));
        assert!(restarts.refuse("p", None, &[request(3000, 1)]));
        assert!(!restarts.refuse("p", None, &[request(5000, 1)]));
        assert!(restarts.note_reported("p"));
        restarts.meet("p", 4, &document(&[(1000, 9000)]), &[]);
        assert!(restarts.refuse("p", None, &[request(5000, 1)]));
        assert!(!restarts.refuse("p", None, &[request(10_000, 1)]));
    }
}
