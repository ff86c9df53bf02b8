//! The one writer of a slot.

use crate::layout::{SlotKey, bucket, quarter};
use crate::page::{ClaimedSlot, Page};
use crate::stages::Stages;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// A slot on loan to one thread. Dropping it gives the slot back; its counters stay.
#[derive(Debug)]
pub struct Slot {
    page: &'static Page,
    place: ClaimedSlot,
    /// A slot must not be written by two threads: neither `Send` nor `Sync`.
    thread: PhantomData<*const ()>,
}

impl Slot {
    /// A slot for this thread. A slot that an earlier thread gave back goes on counting. `None`
    /// when the page is full.
    pub fn claim(page: &'static Page, key: SlotKey) -> Option<Self> {
        let place = page.claim_slot(key)?;
        Some(Self { page, place, thread: PhantomData })
    }

    /// What the slot counts.
    pub fn key(&self) -> Option<SlotKey> {
        SlotKey::decode(self.place.cells.key.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    /// Counts a finished operation of so many payload bytes.
    #[inline]
    pub fn record(&self, bytes: u64, stages: &Stages) {
        let cells = self.place.cells;
        grow(&cells.operations, 1);
        grow(&cells.bytes, bytes);
        grow(&cells.latency_ns, stages.total_ns);
        grow(&cells.queue_ns, stages.queue_ns);
        grow(&cells.buckets[bucket(stages.total_ns)], 1);
        if let Some(quarter) = quarter(stages.total_ns) {
            grow(&self.place.quarters.0[quarter], 1);
        }
        grow(&cells.waited_ns, stages.waited_ns);
        grow(&cells.copied_ns, stages.copied_ns);
        grow(&cells.disk_ns, stages.disk_ns);
    }

    /// Counts an operation that failed.
    pub fn record_failure(&self) {
        grow(&self.place.cells.errors, 1);
    }

    /// Counts an operation that is tried again.
    pub fn record_retry(&self) {
        grow(&self.place.cells.retries, 1);
    }

    /// Says how many operations are under way.
    pub fn set_depth(&self, operations: u64) {
        self.place.cells.depth.store(operations, Ordering::Relaxed);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.set_depth(0);
        self.page.give_back(self.place.index);
    }
}

/// One writer, so a load and a store do; a locked instruction would cost eight times as much.
#[inline]
pub(crate) fn grow(cell: &AtomicU64, amount: u64) {
    let value = cell.load(Ordering::Relaxed).wrapping_add(amount);
    cell.store(value, Ordering::Relaxed);
}
