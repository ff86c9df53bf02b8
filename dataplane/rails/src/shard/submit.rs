//! Requests come in, are cancelled, or lose their peer. Whatever happens, each one's sink gets its
//! end exactly once.

use super::RailShard;
use super::submission::BatchPart;
use crate::active_request::ActiveRequest;
use crate::error::RailError;
use crate::limits::{HOUSEKEEPING, PEERS_MAX, SLICE_BYTES_MAX};
use crate::peer::{NO_ADDRESSES, PeerRecord, RailPeer};
use crate::request::Progress;
use crate::slab::SlabKey;
use crate::slicing::slice_bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl RailShard {
    /// Takes requests; a request that cannot be taken fails at its sink at once.
    pub(crate) fn submit(&mut self, submission: BatchPart, now: Duration) {
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
            let active = ActiveRequest {
                peer: record.number,
                submitted: now,
                batch,
                progress: Progress::new(request.bytes),
                slice_bytes: 0,
                deadline,
                sink: sink.clone(),
                last_fault: String::new(),
                given_up: None,
                request,
            };
            self.take_flight(active);
        }
        self.next_deadline = self.next_deadline.min(deadline);
        self.next_housekeeping = self.next_housekeeping.min(now + HOUSEKEEPING);
        self.list(record.number);
    }

    /// Gives up all requests of a batch.
    pub(crate) fn cancel(&mut self, batch: u64, now: Duration) {
        let of_batch = |active: &ActiveRequest| active.batch == batch;
        self.give_up_all(of_batch, |_| RailError::Canceled, now);
    }

    /// Drops a peer with all its queue pairs; its requests fail. What it still has to confirm is
    /// waited for, unless it is gone.
    pub(crate) fn forget(&mut self, number: u64, now: Duration) {
        let Some(peer) = self.peers.get(&number) else {
            return;
        };
        let record = peer.record.clone();
        record.gone.store(true, Ordering::Release);
        let reason = || record.why_gone();
        self.give_up_all(|active| active.peer == number, |_| reason(), now);
        let lanes = self.peers.get(&number).into_iter().flat_map(|peer| &peer.lanes);
        let endpoints: Vec<SlabKey> = lanes.filter_map(|lane| lane.endpoint).collect();
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

    /// Ends everything: requests fail, queue pairs go. Afterwards no memory is touched.
    pub(crate) fn close(&mut self, now: Duration) {
        self.closed = true;
        self.give_up_all(|_| true, |_| RailError::Closed, now);
        let endpoints: Vec<SlabKey> = self.endpoints.iter().map(|(key, _)| key).collect();
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
        choose: impl Fn(&ActiveRequest) -> bool,
        reason: impl Fn(&ActiveRequest) -> RailError,
        now: Duration,
    ) {
        let chosen = self.requests.iter().filter(|(_, active)| choose(active));
        let keys: Vec<SlabKey> = chosen.map(|(key, _)| key).collect();
        let mut peers = Vec::new();
        for key in keys {
            let Some(active) = self.requests.get(key) else {
                continue;
            };
            let (peer, error) = (active.peer, reason(active));
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
    pub(super) fn give_up(&mut self, key: SlabKey, reason: RailError, now: Duration) {
        let Some(active) = self.requests.get_mut(key) else {
            return;
        };
        let uncut = active.progress.uncut();
        active.give_up(now, reason);
        let dropped = uncut - active.progress.uncut();
        if let Some(peer) = self.peers.get_mut(&active.peer) {
            debug_assert!(peer.waiting.bytes >= dropped, "uncut bytes wait");
            peer.waiting.bytes = peer.waiting.bytes.saturating_sub(dropped);
        }
        self.settle(key);
    }

    /// Ends a request whose outcome is known and of which nothing is under way.
    pub(super) fn settle(&mut self, key: SlabKey) {
        let Some(active) = self.requests.get_mut(key) else {
            return;
        };
        let Some(outcome) = active.progress.take_outcome() else {
            return;
        };
        if let Some(active) = self.requests.remove(key) {
            if let Some(peer) = self.peers.get_mut(&active.peer) {
                debug_assert!(peer.requests > 0, "it was counted");
                peer.requests = peer.requests.saturating_sub(1);
            }
            active.sink.finished(active.request.tag, outcome);
        }
    }

    /// Drops the waiting slices of requests that were given up, and what of them was set aside.
    pub(super) fn sweep(&mut self, number: u64) {
        let Some(peer) = self.peers.get_mut(&number) else {
            return;
        };
        let (slices, requests) = (&self.slices, &self.requests);
        let goes_on = |key: SlabKey| {
            let active = requests.get(key);
            active.is_some_and(|active| active.progress.failure().is_none())
        };
        let of_such = |key: SlabKey| slices.get(key).is_some_and(|slice| goes_on(slice.request));
        for key in peer.waiting.sweep(of_such, goes_on) {
            if let Some(slice) = self.slices.remove(key) {
                self.peer_waits_less(number, slice.bytes);
                if let Some(active) = self.requests.get_mut(slice.request) {
                    active.progress.slice_dropped();
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
                self.plan_again(record.number, now);
            }
        } else {
            if self.peers.len() >= PEERS_MAX {
                return Err(RailError::Full { waiting: self.peers.len(), limit: PEERS_MAX });
            }
            let lanes = self.plan(&theirs);
            if lanes.is_empty() {
                return Err(RailError::NoRoute {
                    peer: record.name.clone(),
                    reason: NO_ADDRESSES.to_owned(),
                });
            }
            self.peers.insert(record.number, RailPeer::new(record.clone(), theirs, lanes));
        }
        if let Some(peer) = self.peers.get_mut(&record.number) {
            peer.wanted_at = now;
        }
        Ok(())
    }

    fn take_flight(&mut self, mut active: ActiveRequest) {
        if let Err(error) = active.request.check() {
            return active.sink.finished(active.request.tag, Err(error));
        }
        let Some(peer) = self.peers.get_mut(&active.peer) else {
            return;
        };
        let mut lanes = peer.lanes.iter();
        if !lanes.any(|lane| active.request.fits(lane.route())) {
            let unknown = RailError::NoRoute {
                peer: peer.record.name.clone(),
                reason: "no pair of rails knows the memory at both ends".to_owned(),
            };
            return active.sink.finished(active.request.tag, Err(unknown));
        }
        let (bytes, number) = (active.request.bytes, active.peer);
        let lanes = peer.lanes_up().max(1);
        let message_max = self.rails.iter().map(|rail| rail.rail.message_bytes()).min();
        let message_max = message_max.unwrap_or(SLICE_BYTES_MAX);
        active.slice_bytes = slice_bytes(bytes, lanes, message_max, self.setup.tuning.slice_bytes);
        debug_assert!(active.slice_bytes > 0, "a slice has bytes");
        let is_small = bytes <= active.slice_bytes;
        match self.requests.insert(active) {
            Ok(key) => {
                let waiting = &mut peer.waiting;
                waiting.bytes += bytes;
                peer.requests += 1;
                let queue = if is_small { &mut waiting.small } else { &mut waiting.large };
                queue.push_back(key);
                self.settle(key);
            }
            Err(active) => {
                let waiting = self.requests.len();
                let limit = waiting;
                tracing::debug!(peer = number, "The shard has no room for another request");
                let full = RailError::Full { waiting, limit };
                active.sink.finished(active.request.tag, Err(full));
            }
        }
    }
}
