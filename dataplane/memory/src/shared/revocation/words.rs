//! The two words of a page, wherever they lie.
//!
//! A guest counts its copy before it looks whether it was revoked; an owner revokes before it looks
//! at the count, by a read that also writes. The steps of both sides then have one order: either
//! the owner sees the copy, or the guest sees that it was revoked. `tests/models` compiles this
//! file with the atomics of loom and plays every order of steps.

use super::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Words {
    revoked: AtomicU64,
    copies: AtomicU64,
}

impl Words {
    /// The guest begins no copy any more.
    pub(super) fn revoke(&self) {
        self.revoked.store(1, Ordering::Release);
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire) != 0
    }

    /// Whether the guest has no copy under way. What it has copied is visible then.
    pub(super) fn is_unused(&self) -> bool {
        // A plain load could miss a copy that has been counted by a guest that did not see that it
        // was revoked.
        self.copies.fetch_add(0, Ordering::AcqRel) == 0
    }

    /// The right to copy, unless the owner has revoked it.
    pub(super) fn begin(&self) -> Option<CopyPermit<'_>> {
        self.copies.fetch_add(1, Ordering::AcqRel);
        let permit = CopyPermit(self);
        (!self.is_revoked()).then_some(permit)
    }
}

/// A copy under way: as long as it lives, an owner that takes its segments back waits.
#[must_use = "the owner waits for copies only while it lives"]
pub struct CopyPermit<'a>(&'a Words);

impl Drop for CopyPermit<'_> {
    fn drop(&mut self) {
        self.0.copies.fetch_sub(1, Ordering::AcqRel);
    }
}

impl std::fmt::Debug for CopyPermit<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CopyPermit").finish_non_exhaustive()
    }
}
