//! Segments whose owners announce what lies there, to a master that has started again.
//! Invariant: what was announced is never announced again, and nothing new is placed in a segment
//! before all of it was.

use perigee_allocator::Extent;

use crate::share::ShareState;

use super::Space;

impl Space {
    /// Takes over what an owner announces of a segment: bytes that an object occupies, or free
    /// ones. False, and nothing happens, unless they lie behind what was announced before.
    pub(crate) fn receive_announced(
        &mut self,
        segment: u32,
        extent: Extent,
        is_occupied: bool,
    ) -> bool {
        let Some(share) = self.get_mut(segment).filter(|share| share.is_readable()) else {
            return false;
        };
        let Some(until) = share.announced_until.filter(|until| *until <= extent.offset) else {
            return false;
        };
        let received = match is_occupied {
            true => share.allocator.receive_allocated(extent),
            false => share.allocator.receive(extent),
        };
        if received.is_err() {
            return false;
        }
        share.announced_until = Some(until.max(extent.offset + extent.bytes));
        true
    }

    /// All that lies in a segment was announced: it takes objects, unless it is being drained.
    pub(crate) fn end_rebuild(&mut self, segment: u32) {
        if let Some(share) = self.get_mut(segment) {
            share.announced_until = None;
            if share.state == ShareState::Live {
                self.go_live(segment);
            }
        }
    }
}
