//! The table of operations in flight: each slot owns its operation until the kernel is done with it.

use crate::limits::OPERATIONS_MAX;
use crate::operation::{Finished, Operation};
use std::task::Waker;

#[derive(Debug)]
enum Slot {
    Free {
        next: Option<u32>,
    },
    Flying {
        operation: Operation,
        waker: Option<Waker>,
        wanted: bool,
    },
    Landed(Finished),
}

/// Slots by number; freed numbers are used again.
#[derive(Debug, Default)]
pub(crate) struct SlotTable {
    slots: Vec<Slot>,
    free: Option<u32>,
}

impl SlotTable {
    /// Takes a slot, or gives the operation back when the table is full.
    pub(crate) fn insert(&mut self, operation: Operation) -> Result<u32, Operation> {
        let slot = Slot::Flying {
            operation,
            waker: None,
            wanted: true,
        };
        if let Some(number) = self.free {
            if let Slot::Free { next } = self.slots[number as usize] {
                self.free = next;
            }
            self.slots[number as usize] = slot;
            return Ok(number);
        }
        if self.slots.len() >= OPERATIONS_MAX {
            let Slot::Flying { operation, .. } = slot else {
                unreachable!("made flying above")
            };
            return Err(operation);
        }
        self.slots.push(slot);
        Ok(self.slots.len() as u32 - 1)
    }

    /// The operation of a slot in flight.
    pub(crate) fn operation(&mut self, number: u32) -> Option<&mut Operation> {
        match self.slots.get_mut(number as usize) {
            Some(Slot::Flying { operation, .. }) => Some(operation),
            _ => None,
        }
    }

    /// Stores a completion; returns who waits for it.
    pub(crate) fn land(&mut self, number: u32, code: i32) -> Option<Waker> {
        let slot = self.slots.get_mut(number as usize)?;
        match std::mem::replace(slot, Slot::Free { next: None }) {
            Slot::Flying {
                operation,
                waker,
                wanted: true,
            } => {
                *slot = Slot::Landed(Finished::new(code, operation));
                waker
            }
            Slot::Flying { operation, .. } => {
                Finished::new(code, operation).discard();
                self.release(number);
                None
            }
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Takes the completion of a slot and frees it, or remembers who waits.
    pub(crate) fn poll(&mut self, number: u32, waker: &Waker) -> Option<Finished> {
        let slot = self.slots.get_mut(number as usize)?;
        if let Slot::Flying { waker: stored, .. } = slot {
            if !stored.as_ref().is_some_and(|old| old.will_wake(waker)) {
                *stored = Some(waker.clone());
            }
            return None;
        }
        match std::mem::replace(slot, Slot::Free { next: None }) {
            Slot::Landed(finished) => {
                self.release(number);
                Some(finished)
            }
            other => {
                self.slots[number as usize] = other;
                None
            }
        }
    }

    /// Takes an operation in flight back from a reactor that can stop it at once.
    pub(crate) fn cancel(&mut self, number: u32) -> Option<Operation> {
        let slot = self.slots.get_mut(number as usize)?;
        match std::mem::replace(slot, Slot::Free { next: None }) {
            Slot::Flying { operation, .. } => {
                self.release(number);
                Some(operation)
            }
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Nobody waits any more: the slot frees itself when the kernel is done.
    pub(crate) fn abandon(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return;
        };
        match slot {
            Slot::Flying { wanted, waker, .. } => {
                *wanted = false;
                *waker = None;
            }
            Slot::Landed(_) => {
                let landed = std::mem::replace(slot, Slot::Free { next: None });
                if let Slot::Landed(finished) = landed {
                    finished.discard();
                }
                self.release(number);
            }
            Slot::Free { .. } => {}
        }
    }

    fn release(&mut self, number: u32) {
        self.slots[number as usize] = Slot::Free { next: self.free };
        self.free = Some(number);
    }
}
