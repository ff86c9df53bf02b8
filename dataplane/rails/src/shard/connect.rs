//! Queue pairs to peers: offered when work needs them, joined when the peer has answered.

use super::reap::Disconnect;
use super::{Outgoing, RailShard};
use crate::descriptor::{EndpointAnswer, EndpointOffer, PairAnswer, PairOffer, ProofDescriptor};
use crate::endpoint::{Endpoint, EndpointRole};
use crate::health::HealthState;
use crate::limits::{
    BESIDE_PAUSE, COOL_DOWN_MAX, COOL_DOWN_MIN, EXCHANGE_DEADLINE, INLINE_BYTES,
    SEND_QUEUE_ENTRIES, WINDOW_BYTES_MIN,
};
use crate::pairing::AddressPair;
use crate::peer::{Lane, LaneState, RailPeer};
use crate::slab::SlabKey;
use perigee_verbs::{QueuePairOptions, RegionAccess};
use std::sync::atomic::Ordering;
use std::time::Duration;

impl RailShard {
    /// Offers the peer a queue pair for each lane that is down and due.
    pub(super) fn connect(&mut self, peer: &mut RailPeer, now: Duration) {
        self.forget_evicted(peer);
        if peer.offered.is_some() || now < peer.next_offer || peer.record.is_gone() {
            return;
        }
        let mut pairs = Vec::new();
        for index in 0..peer.lanes.len() {
            let is_wanted = match peer.lanes[index].beside {
                Some(first) => self.is_wanted_beside(peer, first, now),
                None => true,
            };
            if !is_wanted || !self.is_due(&mut peer.lanes[index], now) {
                continue;
            }
            if !self.make_room(peer.lanes_open(), now) {
                continue;
            }
            if let Some(first) = peer.lanes[index].beside {
                peer.lanes[index].tried = peer.lanes[first].tried;
            }
            let role = EndpointRole::Lane {
                peer: peer.record.number,
                lane: index,
                remote: peer.lanes[index].route().remote,
            };
            let lane = &mut peer.lanes[index];
            match self.open(lane.route(), role, now) {
                Ok((key, offer)) => {
                    lane.endpoint = Some(key);
                    lane.state = LaneState::Offered;
                    pairs.push(PairOffer { lane: index as u32, ..offer });
                }
                Err(reason) if lane.beside.is_some() => {
                    lane.reason = reason;
                    peer.next_beside = now + BESIDE_PAUSE;
                }
                Err(reason) => {
                    lane.reason = reason;
                    lane.failures += 1;
                    lane.health.failed(now);
                }
            }
        }
        if !pairs.is_empty() {
            self.send_offer(peer, pairs, now);
        }
    }

    /// Whether a lane beside this one is worth its queue pair: more waits than this one takes, and
    /// no other endpoint has to make room.
    fn is_wanted_beside(&self, peer: &RailPeer, first: usize, now: Duration) -> bool {
        now >= peer.next_beside
            && peer.waiting.bytes >= WINDOW_BYTES_MIN
            && peer.lanes[first].is_up()
            && !self.endpoints.lanes_full()
    }

    /// Lanes whose queue pair made room for another one are down.
    fn forget_evicted(&self, peer: &mut RailPeer) {
        for lane in &mut peer.lanes {
            if lane.endpoint.is_some_and(|key| self.endpoints.get(key).is_none()) {
                if lane.is_up() {
                    let cells = &self.rails[lane.route().local].cells;
                    cells.pairs_up.set(cells.pairs_up.get().saturating_sub(1));
                }
                lane.endpoint = None;
                lane.state = LaneState::Down;
            }
        }
    }

    fn send_offer(&mut self, peer: &mut RailPeer, pairs: Vec<PairOffer>, now: Duration) {
        self.serial += 1;
        peer.offered = Some((self.serial, now + EXCHANGE_DEADLINE));
        self.outbox.push(Outgoing {
            peer: peer.record.number,
            peer_name: peer.record.name.clone(),
            serial: self.serial,
            offer: EndpointOffer {
                name: self.setup.name.clone(),
                epoch: self.setup.epoch,
                peer_epoch: peer.record.epoch,
                shard: self.setup.number,
                pairs,
                fenced: Vec::new(),
            },
        });
    }

    fn is_due(&self, lane: &mut Lane, now: Duration) -> bool {
        if lane.state != LaneState::Down {
            return false;
        }
        let rail = &self.rails[lane.route().local].rail;
        if !rail.is_active() {
            lane.reason = format!("port of {} is down", rail.name());
            return false;
        }
        match lane.health.standing() {
            HealthState::Healthy | HealthState::Probing => true,
            HealthState::Cooling { .. } => lane.health.begin_probe(now),
        }
    }

    /// Makes sure that the pool takes another queue pair. If all are busy and this peer has none,
    /// the one that is missed least takes no more work and makes room when it has drained.
    fn make_room(&mut self, lanes_open: usize, now: Duration) -> bool {
        if !self.endpoints.lanes_full() {
            return true;
        }
        if let Some(victim) = self.endpoints.evict_lane() {
            self.close_endpoint(victim, now);
            return true;
        }
        if lanes_open == 0 {
            self.endpoints.retire_oldest_lane();
        }
        false
    }

    /// What all queue pairs that speak from an address have in common.
    pub(super) fn pair_options(&self, gid_index: u32) -> QueuePairOptions {
        let link = &self.setup.tuning.link;
        QueuePairOptions {
            gid_index,
            partition_index: link.partition_index,
            mtu_bytes: link.mtu_bytes,
            ..QueuePairOptions::default()
        }
    }

    /// Makes an unconnected queue pair for a route.
    fn open(
        &mut self,
        route: AddressPair,
        role: EndpointRole,
        now: Duration,
    ) -> Result<(SlabKey, PairOffer), String> {
        let rail = &self.rails[route.local];
        let options = QueuePairOptions {
            send_entries: SEND_QUEUE_ENTRIES.min(rail.rail.device().info().limits.send_entries),
            inline_bytes: INLINE_BYTES,
            access: RegionAccess::ALL,
            ..self.pair_options(route.local_gid)
        };
        let queue_pair = rail.queue.queue_pair(&options).map_err(|error| error.to_string())?;
        let bandwidth = rail.bandwidth.successor(now);
        let place = (route.local, route.local_gid);
        let endpoint = queue_pair.endpoint().into();
        let make = |slot| Endpoint::new(queue_pair, place, slot, bandwidth, role);
        let (key, proof) = self.endpoints.add_lane(make, now)?;
        let offer = PairOffer {
            lane: 0,
            peer_rail: route.remote as u32,
            peer_gid_index: route.remote_gid,
            endpoint,
            proof,
        };
        Ok((key, offer))
    }

    /// The answer to an offer, or why there is none. Answers to offers that were given up are
    /// ignored.
    pub(crate) fn answer(
        &mut self,
        number: u64,
        serial: u64,
        answer: Result<EndpointAnswer, String>,
        clock: impl Fn() -> Duration,
    ) {
        let now = clock();
        let Some(peer) = self.peers.get_mut(&number) else {
            return;
        };
        if peer.fences.awaits(serial) {
            return self.fences_answered(number, serial, answer, now);
        }
        if peer.offered.is_none_or(|(expected, _)| expected != serial) {
            return;
        }
        peer.offered = None;
        let offered = |(_, lane): &(usize, &Lane)| lane.state == LaneState::Offered;
        let lanes = peer.lanes.iter().enumerate().filter(offered);
        let lanes: Vec<(usize, SlabKey)> =
            lanes.filter_map(|(index, lane)| Some((index, lane.endpoint?))).collect();
        match answer {
            Ok(answer) if answer.epoch != peer.record.epoch => {
                self.peer_was_replaced(number, now);
            }
            Ok(answer) if answer.pairs.len() == lanes.len() => {
                peer.offers_failed = 0;
                let mut is_late = false;
                for ((lane, endpoint), pair) in lanes.into_iter().zip(answer.pairs) {
                    let joined = self.join(number, (lane, endpoint), &pair, &mut is_late, &clock);
                    self.joined(number, (lane, endpoint), joined, clock());
                }
            }
            Ok(answer) => {
                let (reported, asked) = (answer.pairs.len(), lanes.len());
                let reason = format!("it answered {reported} of {asked} queue pairs");
                self.offer_failed(number, &lanes, reason, now);
            }
            Err(reason) => self.offer_failed(number, &lanes, reason, now),
        }
    }

    /// Another engine answers under the peer's name.
    pub(super) fn peer_was_replaced(&mut self, number: u64, now: Duration) {
        if let Some(peer) = self.peers.get(&number) {
            peer.record.replaced.store(true, Ordering::Release);
        }
        self.forget(number, now);
    }

    pub(super) fn offer_failed(
        &mut self,
        number: u64,
        lanes: &[(usize, SlabKey)],
        reason: String,
        now: Duration,
    ) {
        for (_, endpoint) in lanes {
            self.break_endpoint(*endpoint, &Disconnect::harmless(&reason), now);
        }
        if let Some(peer) = self.peers.get_mut(&number) {
            let pause = COOL_DOWN_MIN * (1 << peer.offers_failed.min(10));
            peer.next_offer = now + pause.min(COOL_DOWN_MAX);
            peer.offers_failed = peer.offers_failed.saturating_add(1);
            peer.reason = reason;
        }
    }

    /// Joins an offered queue pair to the peer's end of it; where the peer may be proven, or why it
    /// is not joined.
    fn join(
        &mut self,
        number: u64,
        (lane, key): (usize, SlabKey),
        pair: &PairAnswer,
        is_late: &mut bool,
        clock: &impl Fn() -> Duration,
    ) -> Result<ProofDescriptor, String> {
        let (remote, proof) = match pair {
            PairAnswer::Joined { endpoint, proof } => (endpoint, *proof),
            PairAnswer::Refused { reason } => return Err(format!("the peer refused: {reason}")),
        };
        let peer = self.peers.get(&number).ok_or("the peer is gone")?;
        let route = peer.lanes[lane].route();
        let own = self.endpoints.get_mut(key).ok_or("its queue pair is gone")?;
        own.joined_to = Some(remote.queue_pair);
        let (queue_pair, remote) = (own.queue_pair(), (route, remote));
        self.joiner.join_answered(queue_pair, remote, is_late, clock)?;
        Ok(proof)
    }

    fn joined(
        &mut self,
        number: u64,
        (lane, key): (usize, SlabKey),
        result: Result<ProofDescriptor, String>,
        now: Duration,
    ) {
        match result {
            Ok(proof) => self.prove(number, lane, key, proof, now),
            Err(reason) => {
                let cause = self.why_not_joined(number, lane, reason, now);
                self.break_endpoint(key, &cause, now);
            }
        }
    }

    /// A lane beside another one says nothing about the rails, which work: the peer may have no
    /// room.
    fn why_not_joined(
        &mut self,
        number: u64,
        lane: usize,
        reason: String,
        now: Duration,
    ) -> Disconnect {
        let peer = self.peers.get_mut(&number);
        match peer.filter(|peer| peer.lanes[lane].beside.is_some()) {
            Some(peer) => {
                peer.next_beside = now + BESIDE_PAUSE;
                Disconnect::harmless(&reason)
            }
            None => Disconnect::blamed(reason),
        }
    }
}
