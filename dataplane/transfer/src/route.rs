//! Which way bytes go: chosen per place from what has been proven, not from a flag alone.

use crate::error::TransferError;
use crate::place::ReplicaAddress;
use crate::segments::SegmentTable;
use perigee_memory::Segment;
use perigee_memory::shared::{Guest, OwnerMemory, SharedSegment};
use perigee_schemas::extent::extent_bytes;
use perigee_schemas::{Direction, Route};
use std::sync::Arc;
use std::time::Duration;

/// Which ways are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Copy directly when the segment belongs to this process.
    pub same_process: bool,
    /// Map segments of other processes of this user on this host.
    pub shared_memory: bool,
}

impl Default for Routes {
    fn default() -> Self {
        Self { same_process: true, shared_memory: true }
    }
}

/// Counts what an engine does.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// Payload bytes of one batch that went over one route, and how long the batch took.
    fn moved(&self, route: Route, direction: Direction, bytes: u64, elapsed: Duration);

    /// One object that could not be moved.
    fn failed(&self, route: Route, direction: Direction, error: &TransferError);
}

/// Memory of a segment that this process can touch.
#[derive(Clone, Debug)]
pub(crate) enum NearMemory {
    Own(Arc<Segment>),
    Mapped(SharedSegment),
}

impl NearMemory {
    /// The nearest way to a place, or `None` if this process cannot touch it.
    pub(crate) fn find(
        place: &ReplicaAddress,
        routes: Routes,
        host_id: &str,
        own: &SegmentTable,
        guest: &Guest,
    ) -> Option<Self> {
        if routes.same_process
            && let Some(segment) = own.get(place.segment.id)
        {
            return Some(NearMemory::Own(segment));
        }
        if !place.is_in_memory() {
            return None;
        }
        let is_ours = own.get(place.segment.id).is_some();
        let is_here = !host_id.is_empty() && place.segment.host_id == host_id;
        if !routes.shared_memory || is_ours || !is_here {
            return None;
        }
        let shared = shared_segment(place, guest)?;
        // A page that this process makes is charged to it. Over TCP the owner makes it.
        let bytes = extent_bytes(place.payload_bytes);
        let is_populated = shared.mapping().is_populated(place.offset, bytes);
        is_populated.then_some(NearMemory::Mapped(shared))
    }

    pub(crate) fn route(&self) -> Route {
        match self {
            NearMemory::Own(_) => Route::SameProcess,
            NearMemory::Mapped(_) => Route::SharedMemory,
        }
    }

    /// First byte of an extent, if it lies inside the memory.
    pub(crate) fn extent(&self, place: &ReplicaAddress) -> Option<*mut u8> {
        let bytes = extent_bytes(place.payload_bytes);
        match self {
            NearMemory::Own(segment) => segment.range(place.offset, bytes),
            NearMemory::Mapped(segment) => segment.mapping().range_mut(place.offset, bytes),
        }
    }
}

/// The segment of a place, mapped on first use; `None` if its owner does not hand it out.
fn shared_segment(place: &ReplicaAddress, guest: &Guest) -> Option<SharedSegment> {
    let segment = &place.segment;
    if segment.rendezvous.is_empty() {
        return None;
    }
    guest.sweep_if_due();
    let is_it = |(id, mapping): (u128, &perigee_memory::MappedSegment)| {
        id == segment.id.0 && mapping.len() as u64 == segment.bytes
    };
    let has_it = |memory: &OwnerMemory| memory.segments().any(is_it);
    let memory = guest.find(&segment.rendezvous, Duration::MAX, has_it)?;
    SharedSegment::of(memory, segment.id.0)
}
