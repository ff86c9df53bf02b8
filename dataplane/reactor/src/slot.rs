//! The table of operations in flight: each slot owns its operation until the kernel is done with
//! it.

use crate::limits::OPERATIONS_MAX;
use crate::operation::{Finished, Operation};
use std::task::Waker;

#[derive(Debug)]
enum OperationSlot {
    Free { next: Option<u32> },
    Flying { operation: Operation, waker: Option<Waker>, wanted: bool },
    Landed(Finished),
}

/// Slots by number; freed numbers are used again.
#[derive(Debug, Default)]
pub(crate) struct SlotTable {
    slots: Vec<OperationSlot>,
    free: Option<u32>,
}

impl SlotTable {
    /// Takes a slot, or gives the operation back when the table is full.
    pub(crate) fn insert(&mut self, operation: Operation) -> Result<u32, Operation> {
        let slot = OperationSlot::Flying { operation, waker: None, wanted: true };
        if let Some(number) = self.free {
            if let OperationSlot::Free { next } = self.slots[number as usize] {
                self.free = next;
            }
            self.slots[number as usize] = slot;
            return Ok(number);
        }
        if self.slots.len() >= OPERATIONS_MAX {
            let OperationSlot::Flying { operation, .. } = slot else {
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
            Some(OperationSlot::Flying { operation, .. }) => Some(operation),
            _ => None,
        }
    }

    /// Stores a completion; returns who waits for it.
    pub(crate) fn land(&mut self, number: u32, code: i32) -> Option<Waker> {
        let slot = self.slots.get_mut(number as usize)?;
        match std::mem::replace(slot, OperationSlot::Free { next: None }) {
            OperationSlot::Flying { operation, waker, wanted: true } => {
                *slot = OperationSlot::Landed(Finished::new(code, operation));
                waker
            }
            OperationSlot::Flying { operation, .. } => {
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
        if let OperationSlot::Flying { waker: stored, .. } = slot {
            if !stored.as_ref().is_some_and(|old| old.will_wake(waker)) {
                *stored = Some(waker.clone());
            }
            return None;
        }
        match std::mem::replace(slot, OperationSlot::Free { next: None }) {
            OperationSlot::Landed(finished) => {
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
        match std::mem::replace(slot, OperationSlot::Free { next: None }) {
            OperationSlot::Flying { operation, .. } => {
                self.release(number);
                Some(operation)
            }
            other => {
                *slot = other;
                None
            }
        }
    }

    /// The future was dropped: the slot frees itself when the kernel is done.
    pub(crate) fn abandon(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return;
        };
        match slot {
            OperationSlot::Flying { wanted, waker, .. } => {
                *wanted = false;
                *waker = None;
            }
            OperationSlot::Landed(_) => {
                let landed = std::mem::replace(slot, OperationSlot::Free { next: None });
                if let OperationSlot::Landed(finished) = landed {
                    finished.discard();
                }
                self.release(number);
            }
            OperationSlot::Free { .. } => {}
        }
    }

    fn release(&mut self, number: u32) {
        self.slots[number as usize] = OperationSlot::Free { next: self.free };
        self.free = Some(number);
    }
}
