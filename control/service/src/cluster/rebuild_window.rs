//! What all shards of a master know of its restart.
//! Invariant: each number is the sum of what the shards have added last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What the shards of a master know of its restart. They share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RebuildWindow(Arc<RestartState>);

#[derive(Debug, Default)]
struct RestartState {
    /// A client or owner knows an earlier life of this master.
    has_predecessor: AtomicBool,
    /// Shares of segments whose objects owners are still to announce.
    awaited: AtomicUsize,
    /// Shards on which no segment takes puts before its owner has announced what lies there.
    without_room: AtomicUsize,
}

/// What one shard has added to the numbers of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Awaited {
    pub(super) shares: usize,
    pub(super) room: bool,
}

impl RebuildWindow {
    /// What a shard waits for has changed.
    pub(super) fn note(&self, before: Awaited, now: Awaited) {
        let RestartState { awaited, without_room, .. } = &*self.0;
        awaited.fetch_add(now.shares, Ordering::Relaxed);
        let known = awaited.fetch_sub(before.shares, Ordering::Relaxed);
        debug_assert!(known >= before.shares, "a shard takes back what it has added");
        without_room.fetch_add(now.room.into(), Ordering::Relaxed);
        let known = without_room.fetch_sub(before.room.into(), Ordering::Relaxed);
        debug_assert!(known >= usize::from(before.room), "a shard without room has said so");
    }

    /// A peer has met an earlier life of this master.
    pub(super) fn note_predecessor(&self) {
        self.0.has_predecessor.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_predecessor(&self) -> bool {
        self.0.has_predecessor.load(Ordering::Relaxed)
    }

    /// Whether owners are to announce objects.
    pub(super) fn awaits_objects(&self) -> bool {
        self.0.awaited.load(Ordering::Relaxed) > 0
    }

    /// Whether a shard has no room before an owner has announced what lies in its segment.
    pub(super) fn awaits_room(&self) -> bool {
        self.0.without_room.load(Ordering::Relaxed) > 0
    }
}
