//! One page between an owner and one guest: whether the guest may still copy, and how many copies it has under way.
//!
//! A page of its own for each guest, so that a guest that dies in the middle of a copy spoils no other's count. The
//! invariant: a guest counts itself before it looks whether the gate is closed, and an owner closes before it looks at the
//! count; so either the guest turns back or the owner waits for it.

use perigee_memory::segment::{Access, MapError, SegmentError, SegmentOptions};
use perigee_memory::{MappedSegment, Segment};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a gate.
const GATE_BYTES: u64 = 4096;
const _: () = assert!(size_of::<Words>() as u64 <= GATE_BYTES);

#[repr(C)]
struct Words {
    closed: AtomicU64,
    users: AtomicU64,
}

/// The owner's side.
#[derive(Debug)]
pub(super) struct OwnGate(Segment);

impl OwnGate {
    pub(super) fn create() -> Result<Self, SegmentError> {
        let options = SegmentOptions {
            populate: perigee_memory::segment::Populate::OnRequest,
            ..SegmentOptions::default()
        };
        Segment::create(GATE_BYTES, &options).map(Self)
    }

    /// Its memory, to be handed to the guest.
    pub(super) fn segment(&self) -> &Segment {
        &self.0
    }

    /// The guest begins no copy any more.
    pub(super) fn close(&self) {
        self.words().closed.store(1, Ordering::SeqCst);
    }

    /// Whether the guest has no copy under way.
    pub(super) fn is_unused(&self) -> bool {
        self.words().users.load(Ordering::SeqCst) == 0
    }

    fn words(&self) -> &Words {
        // SAFETY: the segment is larger than the words, aligned to a page, zeroed at first, and touched as atomics only.
        unsafe { &*self.0.base().cast::<Words>() }
    }
}

/// The guest's side.
#[derive(Debug)]
pub(super) struct Gate(MappedSegment);

impl Gate {
    /// Maps a gate that an owner has handed out.
    pub(super) fn map(file: OwnedFd, announced_bytes: u64) -> Result<Self, MapError> {
        if announced_bytes != GATE_BYTES {
            return Err(MapError::Length {
                announced_bytes,
                file_bytes: GATE_BYTES,
            });
        }
        MappedSegment::map(file, announced_bytes, Access::ReadWrite).map(Self)
    }

    /// The right to copy, unless the owner has closed.
    pub(super) fn enter(&self) -> Option<Pass<'_>> {
        let words = self.words();
        words.users.fetch_add(1, Ordering::SeqCst);
        let pass = Pass(words);
        (words.closed.load(Ordering::SeqCst) == 0).then_some(pass)
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping has exactly the length of a gate, is aligned to a page, and both sides use atomics.
        unsafe { &*self.0.base().cast::<Words>() }
    }
}

/// A copy under way.
pub(super) struct Pass<'a>(&'a Words);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_lets_nobody_in_and_knows_who_is_still_inside() {
        let own = OwnGate::create().unwrap();
        let file = own.segment().fd().try_clone_to_owned().unwrap();
        let gate = Gate::map(file, GATE_BYTES).unwrap();
        let inside = gate.enter().unwrap();
        assert!(!own.is_unused());
        own.close();
        assert!(gate.enter().is_none());
        assert!(!own.is_unused(), "the first is still inside");
        drop(inside);
        assert!(own.is_unused());
    }

    #[test]
    fn memory_of_another_length_is_no_gate() {
        let other = Segment::create(2 * GATE_BYTES, &SegmentOptions::default()).unwrap();
        let file = other.fd().try_clone_to_owned().unwrap();
        assert!(Gate::map(file, 2 * GATE_BYTES).is_err());
    }
}
