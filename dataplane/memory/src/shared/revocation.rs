//! One page between an owner and one guest: whether the guest may still copy, and how many copies
//! it has under way.
//!
//! Each guest has a page of its own, so that one that dies in the middle of a copy spoils no
//! other's count. The invariant: a guest counts itself before it looks whether it was revoked, and
//! an owner revokes before it looks at the count; so either the guest turns back or the owner waits
//! for it.

mod atomic;
mod words;

use crate::segment::{
    Access, MapError, MappedSegment, Populate, Segment, SegmentError, SegmentOptions,
};
use std::os::fd::OwnedFd;
use words::Words;

pub use words::CopyPermit;

/// Number of the revocation page among the segments of a message; no segment has it.
pub(crate) const PAGE_ID: u128 = 0;

const PAGE_BYTES: u64 = 4096;
const _: () = assert!(size_of::<Words>() as u64 <= PAGE_BYTES);

/// The owner's side.
#[derive(Debug)]
pub(super) struct OwnPage(Segment);

impl OwnPage {
    pub(super) fn create() -> Result<Self, SegmentError> {
        let options = SegmentOptions { populate: Populate::OnRequest, ..SegmentOptions::default() };
        Segment::create(PAGE_BYTES, &options).map(Self)
    }

    /// Its memory, to be handed to the guest.
    pub(super) fn segment(&self) -> &Segment {
        &self.0
    }

    /// The guest begins no copy any more.
    pub(super) fn revoke(&self) {
        self.words().revoke();
    }

    /// Whether the guest has no copy under way.
    pub(super) fn is_unused(&self) -> bool {
        self.words().is_unused()
    }

    fn words(&self) -> &Words {
        // SAFETY: the segment is larger than the words, aligned to a page, zeroed at first, and
        // touched as atomics only.
        unsafe { &*self.0.base().cast::<Words>() }
    }
}

/// The guest's side.
#[derive(Debug)]
pub(super) struct GuestPage(MappedSegment);

impl GuestPage {
    /// Maps a page that an owner has handed out.
    pub(super) fn map(file: OwnedFd, announced_bytes: u64) -> Result<Self, MapError> {
        if announced_bytes != PAGE_BYTES {
            return Err(MapError::Length { announced_bytes, file_bytes: PAGE_BYTES });
        }
        MappedSegment::map(file, announced_bytes, Access::ReadWrite).map(Self)
    }

    /// Whether the owner has taken its segments back.
    pub(super) fn is_revoked(&self) -> bool {
        self.words().is_revoked()
    }

    /// The right to copy, unless the owner has revoked it.
    pub(super) fn begin(&self) -> Option<CopyPermit<'_>> {
        self.words().begin()
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping has exactly the length of a page, is aligned to one, and both sides
        // use atomics.
        unsafe { &*self.0.base().cast::<Words>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revoked_guest_begins_no_copy_and_those_under_way_are_known() {
        let own = OwnPage::create().unwrap();
        let file = own.segment().fd().unwrap().try_clone_to_owned().unwrap();
        let page = GuestPage::map(file, PAGE_BYTES).unwrap();
        let copy = page.begin().unwrap();
        assert!(!own.is_unused() && !page.is_revoked());
        own.revoke();
        assert!(page.is_revoked() && page.begin().is_none());
        assert!(!own.is_unused(), "the first copy is still under way");
        drop(copy);
        assert!(own.is_unused());
    }

    #[test]
    fn memory_of_another_length_is_no_page() {
        let other = Segment::create(2 * PAGE_BYTES, &SegmentOptions::default()).unwrap();
        let file = other.fd().unwrap().try_clone_to_owned().unwrap();
        assert!(GuestPage::map(file, 2 * PAGE_BYTES).is_err());
    }
}
