//! Slots of the current thread, for code that runs on threads it did not start.

use crate::layout::SlotKey;
use crate::limits::SLOTS_PER_THREAD;
use crate::page::page;
use crate::slot::Slot;
use crate::stages::Stages;
use std::cell::RefCell;

thread_local! {
    /// Given back when the thread ends.
    static SLOTS: RefCell<Vec<(SlotKey, Slot)>> = const { RefCell::new(Vec::new()) };
}

/// Counts a finished operation in the calling thread's slot for `key`. Counts nothing when the page
/// is full.
pub fn record(key: SlotKey, bytes: u64, stages: &Stages) {
    with_slot(key, |slot| slot.record(bytes, stages));
}

/// Counts a failed operation in the calling thread's slot for `key`.
pub fn record_failure(key: SlotKey) {
    with_slot(key, Slot::record_failure);
}

/// Counts a repeated operation in the calling thread's slot for `key`.
pub fn record_retry(key: SlotKey) {
    with_slot(key, Slot::record_retry);
}

fn with_slot(key: SlotKey, count: impl FnOnce(&Slot)) {
    // A thread that is ending has no slots any more; what it still does is not counted.
    let _ = SLOTS.try_with(|slots| {
        let mut slots = slots.borrow_mut();
        let found = slots.iter().position(|(mine, _)| *mine == key);
        let index = match found {
            Some(index) => index,
            None => {
                let Some(slot) = page().and_then(|page| Slot::claim(page, key)) else {
                    return;
                };
                if slots.len() == SLOTS_PER_THREAD {
                    slots.remove(0);
                }
                slots.push((key, slot));
                slots.len() - 1
            }
        };
        count(&slots[index].1);
    });
}
