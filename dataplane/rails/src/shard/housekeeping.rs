//! What time does: deadlines, stalls, cool-downs that end, idle queue pairs, peers that fell
//! silent.

use super::RailShard;
use super::reap::{Disconnect, late};
use crate::endpoint::{EndpointRole, WorkPurpose};
use crate::health::HealthState;
use crate::limits::{
    ACCEPTED_ASKED_PER_ROUND, HOUSEKEEPING, HOUSEKEEPING_IDLE, IDLE_MAX, KEEP_ALIVE, LINGER,
    PROOF_DEADLINE, STALL,
};
use crate::peer::{LaneState, RailPeer};
use crate::slab::SlabKey;
use perigee_verbs::VerbsError;
use std::time::Duration;

impl RailShard {
    /// One round. Cheap enough for every [`HOUSEKEEPING`].
    pub(super) fn keep_house(&mut self, now: Duration) {
        self.look_at_ports(now);
        self.look_at_addresses(now);
        self.end_late(now);
        self.end_set_aside(now);
        self.break_lingering(now);
        self.end_unfenced(now);
        self.ask_for_fences(now);
        self.break_stalled(now);
        self.end_unanswered(now);
        self.release_drained(now);
        self.reclaim(now);
        self.watch_accepted(now);
        self.try_again(now);
        self.drop_idle_peers(now);
        self.show(now);
        let resting = self.requests.len() == 0 && !self.peers.values().any(is_connecting);
        let pause = if resting { HOUSEKEEPING_IDLE } else { HOUSEKEEPING };
        self.next_housekeeping = now + pause;
        debug_assert!(self.next_wake() > now, "it does not ask for itself at once");
    }

    fn look_at_ports(&mut self, now: Duration) {
        for index in 0..self.rails.len() {
            let rail = self.rails[index].rail.clone();
            rail.take_events();
            let active = rail.is_active();
            let was_active = std::mem::replace(&mut self.rails[index].was_active, active);
            if was_active && !active {
                let reason = format!("port of {} went down", rail.name());
                self.break_rail(index, &reason, now);
            }
        }
    }

    /// A completion queue cannot be read: nothing on the rail will ever end by itself.
    pub(super) fn lose_rail(&mut self, index: usize, error: &VerbsError, now: Duration) {
        if self.rails[index].rail.is_active() {
            tracing::error!(%error, "A rail is lost");
            self.rails[index].rail.lose();
        }
        self.rails[index].was_active = false;
        self.break_rail(index, &error.to_string(), now);
    }

    fn break_rail(&mut self, rail: usize, reason: &str, now: Duration) {
        let cause = Disconnect::blamed(reason.to_owned());
        let on_rail = self.endpoints.iter().filter(|(_, endpoint)| endpoint.rail == rail);
        for key in on_rail.map(|(key, _)| key).collect::<Vec<_>>() {
            self.break_endpoint(key, &cause, now);
        }
    }

    fn end_late(&mut self, now: Duration) {
        if now < self.next_deadline {
            return;
        }
        let names: std::collections::HashMap<u64, String> =
            self.peers.iter().map(|(number, peer)| (*number, peer.record.name.clone())).collect();
        self.give_up_all(
            |active| active.deadline <= now && active.given_up.is_none(),
            |active| late(active, names.get(&active.peer).cloned().unwrap_or_default()),
            now,
        );
        let waiting = self.requests.iter().filter(|(_, active)| active.given_up.is_none());
        let next = waiting.map(|(_, active)| active.deadline).min();
        self.next_deadline = next.unwrap_or(Duration::MAX);
    }

    /// What was set aside is looked at only from time to time: it may have no hope any more.
    fn end_set_aside(&mut self, now: Duration) {
        let peers = self.peers.iter();
        let with_aside = peers.filter(|(_, peer)| peer.waiting.has_aside());
        for number in with_aside.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.end_stuck(number, now);
        }
    }

    /// Work of requests that were given up a while ago and is still on the wire: only without its
    /// queue pair is it certain that the caller's memory is not touched any more.
    fn break_lingering(&mut self, now: Duration) {
        let is_over = |key: SlabKey| {
            let slice = self.slices.get(key);
            let active = slice.and_then(|slice| self.requests.get(slice.request));
            active
                .and_then(|active| active.given_up)
                .is_some_and(|given_up| now.saturating_sub(given_up) >= LINGER)
        };
        if !self.requests.iter().any(|(_, active)| active.given_up.is_some()) {
            return;
        }
        let holds_such = |endpoint: &crate::endpoint::Endpoint| {
            endpoint.posted().iter().any(|posted| match posted.work {
                WorkPurpose::Slice(slice) => is_over(slice),
                WorkPurpose::Proof => false,
            })
        };
        let holding = self.endpoints.iter().filter(|(_, endpoint)| holds_such(endpoint));
        let keys: Vec<SlabKey> = holding.map(|(key, _)| key).collect();
        let cause = Disconnect::harmless("a request that was given up did not end by itself");
        for key in keys {
            self.break_endpoint(key, &cause, now);
        }
    }

    fn break_stalled(&mut self, now: Duration) {
        let is_stalled = |endpoint: &crate::endpoint::Endpoint| {
            let due = STALL + endpoint.bandwidth.time_in_flight();
            !endpoint.posted().is_empty() && now.saturating_sub(endpoint.moved_at) > due
        };
        let stalled = self.endpoints.iter().filter(|(_, endpoint)| is_stalled(endpoint));
        for key in stalled.map(|(key, _)| key).collect::<Vec<_>>() {
            let cause = Disconnect::blamed(format!("no completion for {STALL:?}"));
            self.break_endpoint(key, &cause, now);
        }
    }

    /// Offers without an answer, and proofs without an end.
    fn end_unanswered(&mut self, now: Duration) {
        let mut offers = Vec::new();
        let mut proofs = Vec::new();
        for (number, peer) in &mut self.peers {
            let lanes = peer.lanes.iter().enumerate();
            let with_endpoint =
                lanes.filter_map(|(index, lane)| Some((index, lane, lane.endpoint?)));
            if peer.offered.is_some_and(|(_, until)| now >= until) {
                peer.offered = None;
                let offered = with_endpoint.filter(|(_, lane, _)| lane.state == LaneState::Offered);
                offers.push((
                    *number,
                    offered.map(|(index, _, key)| (index, key)).collect::<Vec<_>>(),
                ));
            } else {
                let late = with_endpoint.filter(|(_, lane, _)| lane.is_late(now));
                proofs.extend(late.map(|(_, _, key)| key));
            }
        }
        for (number, lanes) in offers {
            self.offer_failed(number, &lanes, "no answer to the handshake".to_owned(), now);
        }
        for key in proofs {
            let reason = format!("the proving write was not over within {PROOF_DEADLINE:?}");
            self.break_endpoint(key, &Disconnect::blamed(reason), now);
        }
    }

    /// Queue pairs with nothing on their way are idle once nothing waits for them; one that has to
    /// make room does so now.
    fn release_drained(&mut self, now: Duration) {
        let mut retired = Vec::new();
        for peer in self.peers.values() {
            let waiting = !peer.waiting.is_empty();
            let up = peer.lanes.iter().filter(|lane| lane.is_up());
            for key in up.filter_map(|lane| lane.endpoint) {
                let endpoint = self.endpoints.get(key);
                match endpoint.filter(|endpoint| endpoint.posted().is_empty()) {
                    Some(endpoint) if endpoint.retiring => retired.push(key),
                    Some(_) if !waiting => self.endpoints.release_lane(key, now),
                    _ => {}
                }
            }
        }
        for key in retired {
            self.close_endpoint(key, now);
        }
    }

    fn reclaim(&mut self, now: Duration) {
        while let Some(key) = self.endpoints.expire_lane(now, IDLE_MAX) {
            let cause = Disconnect::harmless("closed because it was idle");
            self.break_endpoint(key, &cause, now);
        }
    }

    fn watch_accepted(&mut self, now: Duration) {
        let gone = self.endpoints.accepted().unanswered(now, PROOF_DEADLINE);
        for key in gone {
            tracing::debug!(epoch = key.epoch, "A peer fell silent; its queue pair is taken down");
            self.drop_accepted(key, now);
        }
        let silent = self.endpoints.accepted().silent(now, KEEP_ALIVE);
        for key in silent.into_iter().take(ACCEPTED_ASKED_PER_ROUND) {
            if let Some((endpoint, proof)) = self.endpoints.ask(key, now) {
                self.ask_for_life(endpoint, proof, now);
            }
        }
    }

    /// Lanes that cooled down are proven again, so that a rail comes back without waiting for work
    /// to need it.
    fn try_again(&mut self, now: Duration) {
        let wants = |peer: &RailPeer| {
            let recently = now.saturating_sub(peer.wanted_at) < IDLE_MAX || peer.requests > 0;
            let cooling =
                peer.lanes.iter().any(|lane| lane.health.standing() != HealthState::Healthy);
            recently && (cooling || peer.offers_failed > 0) && peer.offered.is_none()
        };
        let due = self.peers.iter().filter(|(_, peer)| wants(peer));
        for number in due.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(mut peer) = self.peers.remove(&number) {
                self.connect(&mut peer, now);
                self.peers.insert(number, peer);
            }
        }
    }

    fn drop_idle_peers(&mut self, now: Duration) {
        self.peers.retain(|_, peer| {
            let used = peer.requests > 0
                || peer.offered.is_some()
                || peer.lanes.iter().any(|lane| lane.endpoint.is_some());
            let recent = now.saturating_sub(peer.wanted_at) < IDLE_MAX;
            used || recent && !peer.record.is_gone()
        });
    }

    fn show(&mut self, now: Duration) {
        for rail in &self.rails {
            rail.cells.in_flight_bytes.set(rail.bandwidth.in_flight());
            rail.cells.bytes_per_second.set(rail.bandwidth.bytes_per_second(now) as u64);
        }
    }

    /// Peers that are known, for tests.
    #[cfg(test)]
    pub(crate) fn peer_numbers(&self) -> Vec<u64> {
        self.peers.keys().copied().collect()
    }

    /// Endpoints of lanes, for tests and reports.
    pub(crate) fn queue_pairs(&self) -> (usize, usize) {
        let of_lanes = |role: &EndpointRole| matches!(role, EndpointRole::Lane { .. });
        let lanes = self.endpoints.iter().filter(|(_, endpoint)| of_lanes(&endpoint.role));
        (lanes.count(), self.endpoints.accepted().len())
    }
}

/// Whether a lane is on its way up.
fn is_connecting(peer: &RailPeer) -> bool {
    peer.offered.is_some()
        || peer.lanes.iter().any(|lane| {
            matches!(lane.state, LaneState::Proving { .. } | LaneState::Offered)
                || lane.health.standing() != HealthState::Healthy
        })
}
