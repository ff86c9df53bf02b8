//! Waiting work onto rails: cut the next slice, choose its lane, post with one doorbell per chain.

use super::RailShard;
use crate::active_request::ActiveRequest;
use crate::endpoint::{Endpoint, PostOrder, WorkPurpose};
use crate::error::RailError;
use crate::limits::{
    ASIDE_PER_TURN, DOORBELL_BATCH, FAR_WEIGHT, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, WINDOW_TIME,
};
use crate::pairing::AddressPair;
use crate::peer::{Lane, NO_ADDRESSES, RailPeer};
use crate::placement::Placement;
use crate::slab::SlabKey;
use crate::slice::{LanePath, RailSlice};
use crate::slicing::cut;
use crate::spray::{SprayChoice, SprayLane, choose, window_bytes};
use crate::waiting::Candidate;
use perigee_activity::Direction;
use perigee_verbs::Sge;
use std::time::Duration;

/// A slice before it has a lane.
#[derive(Clone, Copy, Debug)]
struct UnplacedSlice {
    candidate: Candidate,
    request: SlabKey,
    offset: u64,
    bytes: u64,
    avoids: Option<LanePath>,
}

impl RailShard {
    /// Posts what can be posted; true if anything was done.
    pub(super) fn pump(&mut self, now: Duration) -> bool {
        let mut worked = false;
        for index in 0..self.listed.len() {
            let number = self.listed[index];
            let Some(mut peer) = self.peers.remove(&number) else {
                continue;
            };
            worked |= self.serve(&mut peer, now);
            self.peers.insert(number, peer);
            for (endpoint, error) in std::mem::take(&mut self.scratch.refused) {
                self.refused(endpoint, &error, now);
            }
            self.end_what_has_no_hope(number, now);
        }
        let peers = &mut self.peers;
        self.listed.retain(|number| {
            let Some(peer) = peers.get_mut(number) else {
                return false;
            };
            peer.listed = !peer.waiting.is_empty();
            peer.listed
        });
        if self.listed.len() > 1 {
            self.listed.rotate_left(1);
        }
        worked
    }

    /// Posts what can be posted for one peer; true if anything was. A queue pair that refuses gets
    /// no more in this turn, so that what it gives back is not bound to it again and again.
    fn serve(&mut self, peer: &mut RailPeer, now: Duration) -> bool {
        self.connect(peer, now);
        self.scratch.orders.resize_with(peer.lanes.len(), || Vec::with_capacity(DOORBELL_BATCH));
        let (mut worked, mut aside) = (false, 0);
        while let Some(need) = self.next_need(peer, now) {
            self.fill_choice(peer, &need, now);
            let lane = match choose(&self.scratch.choice, need.bytes, peer.waiting.bytes) {
                SprayChoice::Take(choice) => self.scratch.ways[choice].lane,
                SprayChoice::Nowhere if aside < ASIDE_PER_TURN && self.is_any_open(peer) => {
                    // Other memory may be known to the lanes that are up.
                    peer.waiting.set_aside(need.candidate);
                    (worked, aside) = (true, aside + 1);
                    continue;
                }
                SprayChoice::Nowhere | SprayChoice::Hold => break,
            };
            let Some(order) = self.bind(peer, lane, need, now) else {
                break;
            };
            self.scratch.orders[lane].push(order);
            if self.scratch.orders[lane].len() == DOORBELL_BATCH {
                worked |= self.ring(peer, lane, now);
            }
        }
        for lane in 0..peer.lanes.len() {
            worked |= self.ring(peer, lane, now);
        }
        debug_assert!(self.scratch.orders.iter().all(Vec::is_empty), "all was posted");
        worked
    }

    /// The next slice to send, unbound; requests that have ended leave their queues here.
    fn next_need(&mut self, peer: &mut RailPeer, now: Duration) -> Option<UnplacedSlice> {
        if let Some(key) = peer.waiting.slices.front().copied() {
            let slice = self.slices.get(key)?;
            let active = self.requests.get(slice.request)?;
            return is_usable(active, now).then_some(UnplacedSlice {
                candidate: Candidate::Again(key),
                request: slice.request,
                offset: slice.offset,
                bytes: slice.bytes,
                avoids: slice.avoids(),
            });
        }
        if self.slices.is_full() {
            return None;
        }
        loop {
            let queue = peer.waiting.next_queue()?;
            let key = *queue.front()?;
            let active = self.requests.get(key);
            let Some(active) = active.filter(|active| active.progress.uncut() > 0) else {
                queue.pop_front();
                continue;
            };
            let offset = active.progress.cursor();
            let remote = active.request.remote_address + offset;
            let uncut = active.progress.uncut();
            return is_usable(active, now).then(|| UnplacedSlice {
                candidate: Candidate::Fresh(key),
                request: key,
                offset,
                bytes: cut(active.slice_bytes, remote, uncut, active.room()),
                avoids: None,
            });
        }
    }

    /// Lanes that could carry the slice, as the choice sees them. Those it failed on last are left
    /// out if there are others.
    fn fill_choice(&mut self, peer: &RailPeer, need: &UnplacedSlice, now: Duration) {
        self.scratch.choice.clear();
        self.scratch.ways.clear();
        let Some(active) = self.requests.get(need.request) else {
            return;
        };
        let request = &active.request;
        let local = request.local_address + need.offset;
        let remote = request.remote_address + need.offset;
        for (index, lane) in peer.lanes.iter().enumerate() {
            let route = lane.route();
            if self.is_open(peer, lane)
                && request.local.local_key(route.local, local).is_some()
                && request.keys.key(route.remote, remote).is_some()
            {
                self.scratch
                    .ways
                    .push(LanePath { lane: index, rails: (route.local, route.remote) });
            }
        }
        if let Some(failed) = need.avoids {
            failed.leave(&mut self.scratch.ways);
        }
        let (ours, theirs) = (request.local.placement(), request.keys.placement());
        leave_reserves(&mut self.scratch.ways, ours, theirs);
        for way in &self.scratch.ways {
            let endpoint = peer.lanes[way.lane].endpoint;
            if let Some(endpoint) = endpoint.and_then(|key| self.endpoints.get(key)) {
                let staged = self.scratch.orders[way.lane].len();
                let far = [ours.is_far(way.rails.0), theirs.is_far(way.rails.1)];
                let weight = FAR_WEIGHT.powi(far.iter().map(|far| i32::from(*far)).sum());
                let seen = as_choice(endpoint, staged, weight, need.bytes, now);
                self.scratch.choice.push(seen);
            }
        }
    }

    /// Whether a lane takes work in this turn.
    fn is_open(&self, peer: &RailPeer, lane: &Lane) -> bool {
        let endpoint = lane.endpoint.and_then(|key| self.endpoints.get(key));
        let mut refused = self.scratch.refused.iter();
        peer.carries_load(lane)
            && endpoint.is_some_and(|endpoint| !endpoint.retiring)
            && !refused.any(|(key, _)| lane.endpoint == Some(*key))
    }

    fn is_any_open(&self, peer: &RailPeer) -> bool {
        peer.lanes.iter().any(|lane| self.is_open(peer, lane))
    }

    /// Binds a slice to a lane: it leaves the queue, its bytes count as in flight.
    fn bind(
        &mut self,
        peer: &mut RailPeer,
        lane: usize,
        need: UnplacedSlice,
        now: Duration,
    ) -> Option<PostOrder> {
        let route = peer.lanes[lane].route();
        let active = self.requests.get_mut(need.request)?;
        let request = &active.request;
        let local = request.local_address + need.offset;
        let remote = request.remote_address + need.offset;
        let order = PostOrder {
            work: WorkPurpose::Proof,
            write: request.direction == Direction::Write,
            inline: request.local.is_readable(),
            piece: Sge {
                address: local,
                bytes: need.bytes as u32,
                local_key: request.local.local_key(route.local, local)?,
            },
            remote_address: remote,
            remote_key: request.keys.key(route.remote, remote)?,
        };
        let slice = match need.candidate {
            Candidate::Again(key) => {
                let first = peer.waiting.slices.pop_front();
                debug_assert_eq!(first, Some(key), "the first one is bound first");
                key
            }
            Candidate::Fresh(key) => {
                active.progress.next_slice(active.slice_bytes, remote, active.room())?;
                let done = active.progress.uncut() == 0;
                let slice = RailSlice::new(key, need.offset, need.bytes);
                let slice = self.slices.insert(slice).ok();
                debug_assert!(slice.is_some(), "there was room for another slice");
                let slice = slice?;
                if done {
                    peer.waiting.forget(key);
                }
                slice
            }
        };
        debug_assert!(need.bytes > 0 && peer.waiting.bytes >= need.bytes);
        peer.waiting.bytes = peer.waiting.bytes.saturating_sub(need.bytes);
        let endpoint = peer.lanes[lane].endpoint.and_then(|key| self.endpoints.get_mut(key));
        debug_assert!(endpoint.is_some(), "a lane that was chosen is open");
        let endpoint = endpoint?;
        endpoint.bandwidth.posted(now, need.bytes);
        self.rails[route.local].bandwidth.posted(now, need.bytes);
        Some(PostOrder { work: WorkPurpose::Slice(slice), ..order })
    }

    /// Hands the staged work requests of a lane to its device; true if it took any.
    fn ring(&mut self, peer: &mut RailPeer, lane: usize, now: Duration) -> bool {
        let key = peer.lanes[lane].endpoint.filter(|_| !self.scratch.orders[lane].is_empty());
        let endpoint = key.and_then(|key| Some((key, self.endpoints.get_for_post(key, now)?)));
        let Some((key, endpoint)) = endpoint else {
            return false;
        };
        let slices = &mut self.slices;
        let mut accepted = 0;
        let orders = &mut self.scratch.orders[lane];
        let result = endpoint.post(orders, now, |order, ticket| {
            accepted += 1;
            if let WorkPurpose::Slice(slice) = order.work
                && let Some(slice) = slices.get_mut(slice)
            {
                let was_waiting = slice.posted(ticket);
                debug_assert!(was_waiting, "a slice is on one rail at a time");
            }
        });
        // What was not accepted has never been under way: it goes back to the head of the queue.
        for order in orders.drain(..).skip(accepted).rev() {
            let bytes = u64::from(order.piece.bytes);
            endpoint.bandwidth.failed(now, bytes);
            self.rails[endpoint.rail].bandwidth.failed(now, bytes);
            if let WorkPurpose::Slice(slice) = order.work {
                peer.waiting.slices.push_front(slice);
                peer.waiting.bytes += bytes;
            }
        }
        if let Err(error) = result {
            self.scratch.refused.push((key, error.source));
        }
        accepted > 0
    }

    /// Looks at the requests at the head of a peer's queues, and ends all of it that cannot go on
    /// if one of these cannot.
    fn end_what_has_no_hope(&mut self, number: u64, now: Duration) {
        let peer = self.peers.get(&number);
        let Some(peer) = peer.filter(|peer| !peer.waiting.is_empty()) else {
            return;
        };
        let is_active = |rail: usize| self.rails[rail].rail.is_active();
        if peer.is_hopeless(is_active) {
            let reason = hopeless(peer);
            return self.give_up_all(|active| active.peer == number, |_| reason.clone(), now);
        }
        let mut fronts = peer.waiting.fronts(&self.slices);
        let has_hope = fronts.all(|key| {
            let active = self.requests.get(key);
            let active = active.filter(|active| active.progress.failure().is_none());
            active.is_none_or(|active| {
                has_way(active, peer.routes(is_active)) && active.request.keys.is_valid(now)
            })
        });
        if !has_hope {
            self.end_stuck(number, now);
        }
    }

    /// Ends the requests of a peer that no lane gives hope to, and those whose keys have run out.
    pub(super) fn end_stuck(&mut self, number: u64, now: Duration) {
        let Some(peer) = self.peers.get(&number) else {
            return;
        };
        let routes = peer.routes(|rail| self.rails[rail].rail.is_active());
        let routes: Vec<AddressPair> = routes.collect();
        let (reason, name) = (hopeless(peer), peer.record.name.clone());
        let stuck = |active: &ActiveRequest| {
            active.peer == number && !has_way(active, routes.iter().copied())
        };
        self.give_up_all(stuck, |_| reason.clone(), now);
        let over =
            |active: &ActiveRequest| active.peer == number && !active.request.keys.is_valid(now);
        self.give_up_all(over, |_| RailError::Expired { peer: name.clone() }, now);
    }
}

/// Whether a request's memory is known at both ends of any of these.
fn has_way(active: &ActiveRequest, mut routes: impl Iterator<Item = AddressPair>) -> bool {
    routes.any(|route| active.request.fits(route))
}

/// Ways over rails that are kept for when nearer ones do not work go if there are others.
fn leave_reserves(ways: &mut Vec<LanePath>, ours: &Placement, theirs: &Placement) {
    let reserve = |way: &LanePath| ours.reserve(way.rails.0) + theirs.reserve(way.rails.1);
    if let Some(least) = ways.iter().map(reserve).min() {
        ways.retain(|way| reserve(way) == least);
        debug_assert!(!ways.is_empty());
    }
}

/// A queue pair as the choice sees it, with so many orders staged for it.
fn as_choice(
    endpoint: &Endpoint,
    staged: usize,
    weight: f64,
    slice_bytes: u64,
    now: Duration,
) -> SprayLane {
    let bandwidth = endpoint.bandwidth.bytes_per_second(now);
    let window = window_bytes(bandwidth, WINDOW_TIME, WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
    let in_flight = endpoint.bandwidth.in_flight();
    SprayLane {
        in_flight,
        bandwidth,
        weight,
        has_room: endpoint.room() > staged
            && in_flight + slice_bytes <= window.max(2 * slice_bytes),
    }
}

/// Why requests to a peer without hope fail.
fn hopeless(peer: &RailPeer) -> RailError {
    let name = peer.record.name.clone();
    if peer.offers_failed > 0 {
        return RailError::Unreachable { peer: name, reason: peer.reason.clone() };
    }
    let reasons = peer.lanes.iter().map(|lane| &lane.reason);
    let reason = reasons.filter(|reason| !reason.is_empty()).max_by_key(|reason| reason.len());
    RailError::NoRoute {
        peer: name,
        reason: reason.map_or(NO_ADDRESSES, String::as_str).to_owned(),
    }
}

/// Whether more of a request may be posted now.
fn is_usable(active: &ActiveRequest, now: Duration) -> bool {
    active.progress.failure().is_none() && active.request.keys.is_valid(now)
}
