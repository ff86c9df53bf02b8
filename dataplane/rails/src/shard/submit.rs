//! Requests come in, are cancelled, or lose their peer. Whatever happens, each one's sink hears of it exactly once.

use super::RailShard;
use crate::error::RailError;
use crate::flight::{Flight, RailRequest};
use crate::limits::{HOUSEKEEPING, PEERS_MAX, SLICE_BYTES_MAX};
use crate::peer::{NO_ADDRESSES, Peer, PeerRecord};
use crate::request::Progress;
use crate::sink::Sink;
use crate::slab::Key;
use crate::slicing::slice_bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A part of a batch for one shard.
pub(crate) struct Submission {
    pub(crate) peer: Arc<PeerRecord>,
    pub(crate) batch: u64,
    pub(crate) requests: Vec<RailRequest>,
    pub(crate) deadline: Duration,
    pub(crate) sink: Arc<dyn Sink>,
}

impl Drop for Submission {
    /// A submission that never reached its shard: the shard is gone.
    fn drop(&mut self) {
        for request in std::mem::take(&mut self.requests) {
            self.sink.finished(request.tag, Err(RailError::Closed));
        }
    }
}

impl RailShard {
    /// Takes requests; what cannot be taken is told to the sink at once.
    pub(crate) fn submit(&mut self, submission: Submission, now: Duration) {
        let mut submission = submission;
        let requests = std::mem::take(&mut submission.requests);
        let (record, sink) = (submission.peer.clone(), submission.sink.clone());
        let (batch, deadline) = (submission.batch, submission.deadline);
        if let Err(error) = self.admit(&record, now) {
            for request in requests {
                sink.finished(request.tag, Err(error.clone()));
            }
            return;
        }
        for request in requests {
            let flight = Flight {
                peer: record.number,
                batch,
                progress: Progress::new(request.bytes),
                slice_bytes: 0,
                deadline,
                sink: sink.clone(),
                last_fault: String::new(),
                given_up: None,
                request,
            };
            self.take_flight(flight);
        }
        self.next_deadline = self.next_deadline.min(deadline);
        self.next_housekeeping = self.next_housekeeping.min(now + HOUSEKEEPING);
        self.list(record.number);
    }

    /// Gives up all requests of a batch.
    pub(crate) fn cancel(&mut self, batch: u64, now: Duration) {
        let of_batch = |flight: &Flight| flight.batch == batch;
        self.give_up_all(of_batch, |_| RailError::Canceled, now);
    }

    /// Drops a peer with all its queue pairs; its requests fail. What it still has to confirm is waited for, unless it is no
    /// more.
    pub(crate) fn forget(&mut self, number: u64, now: Duration) {
        let Some(peer) = self.peers.get(&number) else {
            return;
        };
        let record = peer.record.clone();
        record.gone.store(true, Ordering::Release);
        let reason = || record.why_gone();
        self.give_up_all(|flight| flight.peer == number, |_| reason(), now);
        let lanes = self
            .peers
            .get(&number)
            .into_iter()
            .flat_map(|peer| &peer.lanes);
        let endpoints: Vec<Key> = lanes.filter_map(|lane| lane.endpoint).collect();
        for endpoint in endpoints {
            self.close_endpoint(endpoint, now);
        }
        let Some(peer) = self.peers.get_mut(&number) else {
            return;
        };
        if record.is_replaced() {
            let held = peer.fences.all_gone();
            self.unhold(held);
        } else if !peer.fences.is_empty() {
            peer.offered = None;
            return;
        }
        self.peers.remove(&number);
    }

    /// Ends everything: requests fail, queue pairs go. Afterwards nothing touches anybody's memory.
    pub(crate) fn close(&mut self, now: Duration) {
        self.closed = true;
        self.give_up_all(|_| true, |_| RailError::Closed, now);
        let endpoints: Vec<Key> = self.endpoints.iter().map(|(key, _)| key).collect();
        for endpoint in endpoints {
            self.close_endpoint(endpoint, now);
        }
        self.end_all_holds();
        debug_assert_eq!(self.requests.len(), 0, "each request has ended");
        debug_assert_eq!(self.endpoints.len(), 0, "no device touches memory");
        self.peers.clear();
        self.listed.clear();
    }

    /// Gives up the requests that `choose` names. What is on the wire still has to end.
    pub(super) fn give_up_all(
        &mut self,
        choose: impl Fn(&Flight) -> bool,
        reason: impl Fn(&Flight) -> RailError,
        now: Duration,
    ) {
        let chosen = self.requests.iter().filter(|(_, flight)| choose(flight));
        let keys: Vec<Key> = chosen.map(|(key, _)| key).collect();
        let mut peers = Vec::new();
        for key in keys {
            let Some(flight) = self.requests.get(key) else {
                continue;
            };
            let (peer, error) = (flight.peer, reason(flight));
            if !peers.contains(&peer) {
                peers.push(peer);
            }
            self.give_up(key, error, now);
        }
        for peer in peers {
            self.sweep(peer);
        }
    }

    /// Gives one request up, and ends it if nothing of it is under way.
    pub(super) fn give_up(&mut self, key: Key, reason: RailError, now: Duration) {
        let Some(flight) = self.requests.get_mut(key) else {
            return;
        };
        let uncut = flight.progress.uncut();
        flight.give_up(now, reason);
        let dropped = uncut - flight.progress.uncut();
        if let Some(peer) = self.peers.get_mut(&flight.peer) {
            debug_assert!(peer.waiting.bytes >= dropped, "uncut bytes wait");
            peer.waiting.bytes = peer.waiting.bytes.saturating_sub(dropped);
        }
        self.settle(key);
    }

    /// Ends a request whose outcome is known and of which nothing is under way.
    pub(super) fn settle(&mut self, key: Key) {
        let Some(flight) = self.requests.get_mut(key) else {
            return;
        };
        let Some(outcome) = flight.progress.take_outcome() else {
            return;
        };
        if let Some(flight) = self.requests.remove(key) {
            if let Some(peer) = self.peers.get_mut(&flight.peer) {
                debug_assert!(peer.requests > 0, "it was counted");
                peer.requests = peer.requests.saturating_sub(1);
            }
            flight.sink.finished(flight.request.tag, outcome);
        }
    }

    /// Drops the waiting slices of requests that were given up, and what of them was set aside.
    pub(super) fn sweep(&mut self, number: u64) {
        let Some(peer) = self.peers.get_mut(&number) else {
            return;
        };
        let (slices, requests) = (&self.slices, &self.requests);
        let goes_on = |key: Key| {
            let flight = requests.get(key);
            flight.is_some_and(|flight| flight.progress.failure().is_none())
        };
        let of_such = |key: Key| slices.get(key).is_some_and(|slice| goes_on(slice.request));
        for key in peer.waiting.sweep(of_such, goes_on) {
            if let Some(slice) = self.slices.remove(key) {
                self.peer_waits_less(number, slice.bytes);
                if let Some(flight) = self.requests.get_mut(slice.request) {
                    flight.progress.slice_dropped();
                }
                self.settle(slice.request);
            }
        }
    }

    /// Puts a peer on the list of those with waiting work.
    pub(super) fn list(&mut self, number: u64) {
        let peer = self.peers.get_mut(&number);
        if let Some(peer) = peer.filter(|peer| !peer.listed) {
            debug_assert!(!self.listed.contains(&number), "a peer is listed once");
            peer.listed = true;
            self.listed.push(number);
        }
    }

    fn peer_waits_less(&mut self, number: u64, bytes: u64) {
        if let Some(peer) = self.peers.get_mut(&number) {
            debug_assert!(peer.waiting.bytes >= bytes, "its bytes wait");
            peer.waiting.bytes = peer.waiting.bytes.saturating_sub(bytes);
        }
    }

    /// Makes sure that the peer is known and may be used.
    fn admit(&mut self, record: &Arc<PeerRecord>, now: Duration) -> Result<(), RailError> {
        if self.closed {
            return Err(RailError::Closed);
        }
        if record.is_gone() {
            return Err(record.why_gone());
        }
        let theirs = record.rails();
        if let Some(peer) = self.peers.get(&record.number) {
            if !Arc::ptr_eq(&theirs, &peer.theirs) {
                self.plan_anew(record.number, now);
            }
        } else {
            if self.peers.len() >= PEERS_MAX {
                return Err(RailError::Full {
                    waiting: self.peers.len(),
                    limit: PEERS_MAX,
                });
            }
            let lanes = self.plan(&theirs);
            if lanes.is_empty() {
                return Err(RailError::NoRoute {
                    peer: record.name.clone(),
                    reason: NO_ADDRESSES.to_owned(),
                });
            }
            self.peers
                .insert(record.number, Peer::new(record.clone(), theirs, lanes));
        }
        if let Some(peer) = self.peers.get_mut(&record.number) {
            peer.wanted_at = now;
        }
        Ok(())
    }

    fn take_flight(&mut self, mut flight: Flight) {
        if let Err(error) = flight.request.check() {
            return flight.sink.finished(flight.request.tag, Err(error));
        }
        let Some(peer) = self.peers.get_mut(&flight.peer) else {
            return;
        };
        let mut lanes = peer.lanes.iter();
        if !lanes.any(|lane| flight.request.fits(lane.route())) {
            let unknown = RailError::NoRoute {
                peer: peer.record.name.clone(),
                reason: "no pair of rails knows the memory at both ends".to_owned(),
            };
            return flight.sink.finished(flight.request.tag, Err(unknown));
        }
        let (bytes, number) = (flight.request.bytes, flight.peer);
        let lanes = peer.lanes_up().max(1);
        let message_max = self
            .rails
            .iter()
            .map(|rail| rail.rail.message_bytes())
            .min();
        flight.slice_bytes = slice_bytes(bytes, lanes, message_max.unwrap_or(SLICE_BYTES_MAX));
        debug_assert!(flight.slice_bytes > 0, "a slice has bytes");
        let is_small = bytes <= flight.slice_bytes;
        match self.requests.insert(flight) {
            Ok(key) => {
                let waiting = &mut peer.waiting;
                waiting.bytes += bytes;
                peer.requests += 1;
                let queue = if is_small {
                    &mut waiting.small
                } else {
                    &mut waiting.large
                };
                queue.push_back(key);
                self.settle(key);
            }
            Err(flight) => {
                let waiting = self.requests.len();
                let limit = waiting;
                tracing::debug!(peer = number, "The shard has no room for another request");
                let full = RailError::Full { waiting, limit };
                flight.sink.finished(flight.request.tag, Err(full));
            }
        }
    }
}
