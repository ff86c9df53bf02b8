//! Broken queue pairs: the peer must take its ends down before requests that wrote through them are
//! reported as done.
//!
//! Our end goes first: from then on no packet is sent. The peer destroys its end and answers: from
//! then on none is taken.

use super::{Outgoing, RailShard};
use crate::accepted::AcceptedKey;
use crate::active_request::ActiveRequest;
use crate::descriptor::{EndpointAnswer, EndpointOffer, FencedPair};
use crate::endpoint::{Endpoint, EndpointRole, WorkPurpose};
use crate::error::RailError;
use crate::limits::FENCE_LINGER;
use crate::peer::RailPeer;
use crate::slab::SlabKey;
use perigee_activity::Direction;
use std::time::Duration;

impl RailShard {
    /// Holds the requests that have writes on their way on a queue pair that breaks now.
    pub(super) fn hold_writers(&mut self, endpoint: &Endpoint) {
        let (EndpointRole::Lane { peer, lane, .. }, Some(queue_pair)) =
            (&endpoint.role, endpoint.joined_to)
        else {
            return;
        };
        let peer = self.peers.get_mut(peer);
        let Some(peer) = peer.filter(|peer| !self.closed && !peer.record.is_replaced()) else {
            return;
        };
        let mut holds: Vec<SlabKey> = Vec::new();
        for posted in endpoint.posted() {
            let WorkPurpose::Slice(slice) = posted.work else {
                continue;
            };
            let request = self.slices.get(slice).map(|slice| slice.request);
            let Some(request) = request.filter(|request| !holds.contains(request)) else {
                continue;
            };
            let active = self.requests.get_mut(request);
            let writes = |active: &&mut ActiveRequest| active.request.direction == Direction::Write;
            if let Some(active) = active.filter(writes) {
                active.progress.hold();
                holds.push(request);
            }
        }
        debug_assert!(holds.iter().all(|key| self.requests.get(*key).is_some()));
        let lane = *lane as u32;
        peer.fences.open(FencedPair { lane, queue_pair }, holds);
    }

    /// Asks each peer that owes the confirmation for it.
    pub(super) fn ask_for_fences(&mut self, now: Duration) {
        let setup = &self.setup;
        for (number, peer) in &mut self.peers {
            if !peer.fences.is_due(now) {
                continue;
            }
            self.serial += 1;
            self.outbox.push(Outgoing {
                peer: *number,
                peer_name: peer.record.name.clone(),
                serial: self.serial,
                offer: EndpointOffer {
                    name: setup.name.clone(),
                    epoch: setup.epoch,
                    peer_epoch: peer.record.epoch,
                    shard: setup.number,
                    pairs: Vec::new(),
                    fenced: peer.fences.ask(self.serial, now),
                },
            });
        }
    }

    /// What a peer says to the question of [`RailShard::ask_for_fences`].
    pub(super) fn fences_answered(
        &mut self,
        number: u64,
        serial: u64,
        answer: Result<EndpointAnswer, String>,
        now: Duration,
    ) {
        let Some(peer) = self.peers.get_mut(&number) else {
            return;
        };
        match answer {
            Ok(answer) if answer.epoch != peer.record.epoch => {
                self.peer_was_replaced(number, now);
            }
            Ok(answer) => {
                let released = peer.fences.confirmed(serial, answer.fenced, now);
                self.unhold(released);
            }
            Err(error) => {
                tracing::debug!(error, "A peer did not confirm the end of a queue pair");
                peer.fences.unanswered(now);
            }
        }
    }

    /// Requests go on whose broken queue pairs cannot harm any more.
    pub(super) fn unhold(&mut self, requests: Vec<SlabKey>) {
        for key in requests {
            if let Some(active) = self.requests.get_mut(key) {
                active.progress.unhold();
            }
            self.settle(key);
        }
    }

    /// Ends requests that were given up a while ago and wait for nothing but a confirmation.
    pub(super) fn end_unfenced(&mut self, now: Duration) {
        let is_over = |active: &ActiveRequest| {
            let given_up = active.given_up;
            let waited = given_up.map(|given_up| now.saturating_sub(given_up));
            active.progress.is_held() && waited.is_some_and(|waited| waited >= FENCE_LINGER)
        };
        let over = self.requests.iter().filter(|(_, active)| is_over(active));
        for key in over.map(|(key, _)| key).collect::<Vec<_>>() {
            self.end_without_fence(key);
        }
    }

    fn end_without_fence(&mut self, key: SlabKey) {
        let Some(active) = self.requests.get_mut(key) else {
            return;
        };
        let mut name = String::new();
        if let Some(peer) = self.peers.get_mut(&active.peer) {
            peer.fences.let_go(key);
            name.clone_from(&peer.record.name);
        }
        active
            .progress
            .let_go(RailError::Unfenced { peer: name, last_fault: active.last_fault.clone() });
        self.settle(key);
    }

    /// Lets all requests end: the shard is closing.
    pub(super) fn end_all_holds(&mut self) {
        let held = self.peers.values_mut();
        let held = held.flat_map(|peer: &mut RailPeer| peer.fences.all_gone());
        let held: Vec<SlabKey> = held.collect();
        self.unhold(held);
    }

    /// The other side: takes down our ends of queue pairs that broke at the peer. Returns how many
    /// are gone now.
    pub(super) fn take_fenced_down(&mut self, offer: &EndpointOffer, now: Duration) -> u32 {
        for fenced in &offer.fenced {
            let key = AcceptedKey { epoch: offer.epoch, shard: offer.shard, lane: fenced.lane };
            let endpoint = self.endpoints.accepted().get(key).map(|accepted| accepted.endpoint);
            let endpoint = endpoint.and_then(|key| self.endpoints.get(key));
            // A newer queue pair of the same lane stays; the one that is meant has gone before it.
            if endpoint.is_some_and(|endpoint| endpoint.number() == fenced.queue_pair) {
                self.drop_accepted(key, now);
            }
        }
        offer.fenced.len() as u32
    }
}
