//! Which owners have said at the endpoints of their segments that they have them, and how many
//! segments a client may have.
//! Invariant: where owners are asked, a segment takes objects only after its owner has answered for
//! it, and a client at an endpoint makes way only for one that has answered there.

use std::net::IpAddr;
use std::sync::Arc;

use perigee_schemas::Status;

use crate::limits::{
    CONFIRM_PAUSE_MS, SEGMENTS_PER_ADDRESS_MAX, SEGMENTS_PER_CLIENT_MAX, SEGMENTS_UNCONFIRMED_MAX,
};
use crate::segment::{SegmentEvent, SegmentSpec};

use super::Registry;
use super::segment_state::{Mounted, Occupancy};

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

    /// A segment of a client that its owner has not answered for and is to be asked about now: the
    /// one that has not been asked about for longest, so that those without an answer keep no other
    /// one waiting. The same again only after a pause.
    pub fn segment_to_ask(&mut self, now_ms: u64, client: u128) -> Option<Arc<SegmentSpec>> {
        self.advance(now_ms);
        let now_ms = self.now_ms;
        let was_asked = |asked_ms| now_ms.saturating_sub(asked_ms) < CONFIRM_PAUSE_MS;
        let is_due =
            |mounted: &Mounted| !mounted.is_confirmed && !mounted.asked_ms.is_some_and(was_asked);
        let known = self.clients.get(&client)?;
        let due = |index: &u32| {
            let mounted = self.segments.get(index).filter(|mounted| is_due(mounted))?;
            Some((mounted.asked_ms, *index))
        };
        let (_, index) =
            known.segments.iter().filter_map(due).min_by_key(|(asked_ms, _)| *asked_ms)?;
        let mounted = self.segments.get_mut(&index)?;
        mounted.asked_ms = Some(now_ms);
        Some(mounted.spec.clone())
    }

    /// The owner of a segment has said at its endpoint that it is there: the segment takes objects,
    /// and other clients that claim the endpoint are gone.
    pub fn confirm(&mut self, now_ms: u64, client: u128, id: u128) {
        self.advance(now_ms);
        let Ok(index) = self.own_segment(client, id) else {
            return;
        };
        let Some(mounted) = self.segments.get_mut(&index) else {
            return;
        };
        if std::mem::replace(&mut mounted.is_confirmed, true) {
            return;
        }
        if mounted.drain_end_ms.is_none() && mounted.occupancy == Occupancy::Open {
            self.events.push(SegmentEvent::Resumed { index });
        }
        let spec = mounted.spec.clone();
        self.bury_predecessors(&spec);
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

    /// Unmounts the segment that has waited longest for its owner's answer, if there are too many
    /// of them.
    pub(super) fn make_room_for_unconfirmed(&mut self) {
        let waiting = || self.segments.iter().filter(|(_, mounted)| !mounted.is_confirmed);
        if waiting().count() < SEGMENTS_UNCONFIRMED_MAX {
            return;
        }
        let oldest = waiting().map(|(index, _)| *index).next();
        if let Some(oldest) = oldest {
            self.forget_segment(oldest);
        }
    }
}
