//! A mounted segment and the state that it is in.
//! Invariant: a segment takes objects only when it is confirmed and neither drained nor being
//! unmounted.

use crate::segment::SegmentSpec;
use perigee_allocator::Extent;
use perigee_schemas::DiskHealth;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Mounted {
    pub(super) spec: Arc<SegmentSpec>,
    /// The last of its client's mount requests that named it, if the client numbers them.
    pub(super) mount_number: u64,
    /// Bytes that its owner has memory for.
    pub(super) usable_bytes: u64,
    /// Of a disk: how its owner finds it.
    pub(super) health: DiskHealth,
    /// Ranges that its owner has no memory for, in order.
    pub(super) unbacked: Arc<[Extent]>,
    /// End of the grace of a graceful unmount.
    pub(super) drain_end_ms: Option<u64>,
    pub(super) occupancy: Occupancy,
    /// Its owner has said at its endpoint that it is there, or need not.
    pub(super) is_confirmed: bool,
    /// When the owner was asked last.
    pub(super) asked_ms: Option<u64>,
}

/// What drain jobs make of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occupancy {
    /// It takes objects.
    Open,
    /// A job empties it.
    Draining,
    /// A job has emptied it, and it takes nothing more.
    Drained,
}

/// State of a mounted segment, with Mooncake's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SegmentState {
    /// Takes nothing, because its owner has not said at its endpoint yet that it is there.
    Unconfirmed = 0,
    /// Takes objects.
    Ok = 1,
    /// Readable, takes no new objects, and its objects are being moved elsewhere.
    Draining = 2,
    /// Empty, and takes no new objects.
    Drained = 3,
    /// Readable, takes no new objects, and is unmounted soon.
    GracefullyUnmounting = 4,
}

/// A mounted segment.
#[derive(Debug, Clone, Copy)]
pub struct SegmentView<'a> {
    /// Its number in replies.
    pub index: u32,
    /// What its owner announced.
    pub spec: &'a Arc<SegmentSpec>,
    /// Whether it takes objects.
    pub state: SegmentState,
}

impl Mounted {
    pub(super) fn view(&self, index: u32) -> SegmentView<'_> {
        let state = match (self.drain_end_ms, self.occupancy) {
            (Some(_), _) => SegmentState::GracefullyUnmounting,
            (None, Occupancy::Open) if !self.is_confirmed => SegmentState::Unconfirmed,
            (None, Occupancy::Open) => SegmentState::Ok,
            (None, Occupancy::Draining) => SegmentState::Draining,
            (None, Occupancy::Drained) => SegmentState::Drained,
        };
        SegmentView { index, spec: &self.spec, state }
    }
}
