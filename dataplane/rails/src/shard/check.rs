//! The records of a shard against each other, after each step of its tests.
//! Invariant checked: every request, slice and queue pair is where the others say it is, and each
//! byte of a request is uncut, waiting, on its way or moved.

use super::RailShard;
use crate::endpoint::{EndpointRole, WorkPurpose};
use crate::peer::RailPeer;
use crate::slab::SlabKey;
use std::collections::{HashMap, HashSet};

impl RailShard {
    /// Fails the test if any two records disagree.
    pub(crate) fn check(&self) {
        self.endpoints.check();
        self.requests.check();
        self.slices.check();
        self.check_bandwidths();
        self.check_slices();
        self.check_requests();
        self.check_peers();
    }

    fn check_bandwidths(&self) {
        let mut in_flight = vec![0; self.rails.len()];
        for (_, endpoint) in self.endpoints.iter() {
            in_flight[endpoint.rail] += endpoint.bandwidth.in_flight();
        }
        for (rail, in_flight) in self.rails.iter().zip(in_flight) {
            assert_eq!(rail.bandwidth.in_flight(), in_flight, "bytes of a rail");
        }
    }

    /// A slice is posted on one queue pair, or waits at one peer, and its request is there.
    fn check_slices(&self) {
        let mut places: HashMap<SlabKey, usize> = HashMap::new();
        for (_, endpoint) in self.endpoints.iter() {
            for posted in endpoint.posted() {
                if let WorkPurpose::Slice(key) = posted.work
                    && let Some(slice) = self.slices.get(key)
                {
                    assert!(!slice.is_waiting(), "what is posted does not wait");
                    *places.entry(key).or_default() += 1;
                }
            }
        }
        for key in self.peers.values().flat_map(|peer| peer.waiting.all_slices()) {
            let slice = self.slices.get(key);
            assert!(slice.is_some_and(|slice| slice.is_waiting()), "{key:?} waits");
            *places.entry(key).or_default() += 1;
        }
        for (key, slice) in self.slices.iter() {
            assert_eq!(places.get(&key), Some(&1), "a slice is at one place");
            assert!(self.requests.get(slice.request).is_some(), "of a request");
        }
    }

    fn check_requests(&self) {
        for (key, active) in self.requests.iter() {
            let slices = self.slices.iter();
            let slices = slices.filter(|(_, slice)| slice.request == key).count();
            let peer = self.peers.get(&active.peer);
            let fences = peer.map_or(0, |peer| peer.fences.count_of(key));
            active.progress.check(slices, fences);
            assert!(peer.is_some(), "a request has its peer");
        }
    }

    fn check_peers(&self) {
        let listed: HashSet<u64> = self.listed.iter().copied().collect();
        assert_eq!(listed.len(), self.listed.len(), "a peer is listed once");
        for (number, peer) in &self.peers {
            let of_peer = || self.requests.iter().filter(|(_, it)| it.peer == *number);
            assert_eq!(peer.requests, of_peer().count(), "requests of peer {number}");
            let uncut: u64 = of_peer().map(|(_, it)| it.progress.uncut()).sum();
            let waiting = peer.waiting.all_slices().into_iter();
            let waiting = waiting.filter_map(|key| self.slices.get(key));
            let waiting: u64 = waiting.map(|slice| slice.bytes).sum();
            assert_eq!(peer.waiting.bytes, uncut + waiting, "bytes of peer {number}");
            assert!(!peer.listed || listed.contains(number), "{number} is served");
            self.check_lanes(*number, peer);
        }
    }

    /// A lane may name a queue pair that made room for another one; one that is there is the
    /// lane's.
    fn check_lanes(&self, number: u64, peer: &RailPeer) {
        for (index, lane) in peer.lanes.iter().enumerate() {
            let endpoint = lane.endpoint.and_then(|key| self.endpoints.get(key));
            if let Some(endpoint) = endpoint {
                let is_own = matches!(
                    endpoint.role,
                    EndpointRole::Lane { peer, lane, .. } if (peer, lane) == (number, index)
                );
                assert!(is_own, "lane {index} of peer {number} has its own queue pair");
                assert_eq!(endpoint.rail, lane.route().local, "over its rail");
            }
        }
    }
}
