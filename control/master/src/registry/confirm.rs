//! Which owners have answered at the endpoints of their segments, and how many segments a client may have.
//! Invariant: where owners are asked, a segment takes objects only after its owner has answered, and a client at an endpoint
//! makes way only for one that has answered there.

use std::net::IpAddr;

use perigee_schemas::Status;

use crate::limits::{
    CONFIRM_PAUSE_MS, SEGMENTS_PER_ADDRESS_MAX, SEGMENTS_PER_CLIENT_MAX, SEGMENTS_UNCONFIRMED_MAX,
};
use crate::segment::SegmentEvent;

use super::Registry;
use super::mounted::Occupancy;

impl Registry {
    /// A client is about to mount, from this address.
    ///
    /// # Errors
    /// `InvalidParams` if there are too many clients.
    pub fn arrive(&mut self, now_ms: u64, client: u128, address: IpAddr) -> Result<(), Status> {
        self.advance(now_ms);
        self.admit(client)?;
        if let Some(known) = self.clients.get_mut(&client) {
            known.address = Some(address);
        }
        Ok(())
    }

    /// An endpoint of a client at which it has not answered yet and is to be asked now; none again before a pause.
    pub fn endpoint_to_ask(&mut self, now_ms: u64, client: u128) -> Option<String> {
        self.advance(now_ms);
        let now_ms = self.now_ms;
        let known = self.clients.get_mut(&client)?;
        let was_asked = |asked_ms| now_ms.saturating_sub(asked_ms) < CONFIRM_PAUSE_MS;
        if known.asked_ms.is_some_and(was_asked) {
            return None;
        }
        let waiting = |index: &u32| {
            let mounted = self.segments.get(index)?;
            (!mounted.is_confirmed).then(|| mounted.spec.endpoint.clone())
        };
        let endpoint = known.segments.iter().find_map(waiting)?;
        known.asked_ms = Some(now_ms);
        Some(endpoint)
    }

    /// A client has answered at an endpoint: its segments there take objects, and other clients that claim the endpoint
    /// are gone.
    pub fn confirm(&mut self, now_ms: u64, client: u128, endpoint: &str) {
        self.advance(now_ms);
        let there = |(index, mounted): (&u32, &super::Mounted)| {
            let is_theirs = mounted.spec.client == client && mounted.spec.endpoint == endpoint;
            (is_theirs && !mounted.is_confirmed).then_some(*index)
        };
        let confirmed: Vec<u32> = self.segments.iter().filter_map(there).collect();
        for index in confirmed {
            let Some(mounted) = self.segments.get_mut(&index) else {
                continue;
            };
            mounted.is_confirmed = true;
            if mounted.drain_end_ms.is_none() && mounted.occupancy == Occupancy::Open {
                self.events.push(SegmentEvent::Resumed { index });
            }
            let spec = mounted.spec.clone();
            self.bury_predecessors(&spec);
        }
        if let Some(known) = self.clients.get_mut(&client) {
            // What it mounts next is asked for at once.
            known.asked_ms = None;
        }
    }

    /// Whether a client, and its address, may have one more segment.
    pub(super) fn has_share(&self, client: u128) -> bool {
        let Some(known) = self.clients.get(&client) else {
            return true;
        };
        let at_address = |address: IpAddr| {
            let neighbours = self.clients.values();
            let same = neighbours.filter(|other| other.address == Some(address));
            same.map(|other| other.segments.len()).sum::<usize>()
        };
        let is_crowded = |address| at_address(address) >= SEGMENTS_PER_ADDRESS_MAX;
        known.segments.len() < SEGMENTS_PER_CLIENT_MAX
            // So few cannot be too many of any address.
            && (self.segments.len() < SEGMENTS_PER_ADDRESS_MAX
                || !known.address.is_some_and(is_crowded))
    }

    /// Unmounts the segment that has waited longest for its owner's answer, if there are too many of them.
    pub(super) fn make_room_for_unconfirmed(&mut self) {
        let waiting = || {
            self.segments
                .iter()
                .filter(|(_, mounted)| !mounted.is_confirmed)
        };
        if waiting().count() < SEGMENTS_UNCONFIRMED_MAX {
            return;
        }
        let oldest = waiting().map(|(index, _)| *index).next();
        if let Some(oldest) = oldest {
            self.forget_segment(oldest);
        }
    }
}
