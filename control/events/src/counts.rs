//! What the publisher did, for the status route and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct EventCounts {
    /// Messages.
    pub published_batches: u64,
    /// Events in them.
    pub published_events: u64,
    /// Events that had no room in a queue.
    pub dropped_events: u64,
    /// Events whose key is no hash in decimal or `0x` form.
    pub skipped_unparsed_keys: u64,
    /// Sequence number of the next message.
    pub next_sequence: u64,
    /// Subscribers that are connected now.
    pub subscribers: u64,
}

/// The same, written by the publisher's thread and read by others.
#[derive(Debug, Default)]
pub(crate) struct SharedCounts {
    pub(crate) published_batches: AtomicU64,
    pub(crate) published_events: AtomicU64,
    pub(crate) dropped_events: AtomicU64,
    pub(crate) skipped_unparsed_keys: AtomicU64,
    pub(crate) next_sequence: AtomicU64,
    pub(crate) subscribers: AtomicU64,
}

impl SharedCounts {
    pub(crate) fn read(&self) -> EventCounts {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        EventCounts {
            published_batches: read(&self.published_batches),
            published_events: read(&self.published_events),
            dropped_events: read(&self.dropped_events),
            skipped_unparsed_keys: read(&self.skipped_unparsed_keys),
            next_sequence: read(&self.next_sequence),
            subscribers: read(&self.subscribers),
        }
    }
}

/// Adds to a cell.
pub(crate) fn count(cell: &AtomicU64, more: u64) {
    cell.fetch_add(more, Ordering::Relaxed);
}
