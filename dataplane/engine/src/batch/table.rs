//! The batches that callers can ask about, by number.
//! Invariant: a number names one batch only; a released slot gives the next batch another number.

use super::submission::Submission;
use crate::error::{BatchError, EngineError};
use crate::limits::BATCHES_MAX;
use crate::request::BatchId;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bits of a number that name the slot; the others count its uses.
const SLOT_BITS: u32 = 20;
const _: () = assert!(BATCHES_MAX < 1 << SLOT_BITS);

/// All batches of one engine that were not released yet.
#[derive(Debug, Default)]
pub(crate) struct BatchTable {
    slots: RwLock<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    all: Vec<BatchSlot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct BatchSlot {
    uses: u64,
    batch: Option<Arc<Submission>>,
}

impl BatchTable {
    /// Gives a batch a number.
    pub(crate) fn insert(&self, batch: Arc<Submission>) -> Result<BatchId, EngineError> {
        let mut slots = self.write();
        let number = match slots.free.pop() {
            Some(number) => number,
            None if slots.all.len() < BATCHES_MAX => {
                slots.all.push(BatchSlot { uses: 0, batch: None });
                slots.all.len() as u32 - 1
            }
            None => {
                return Err(EngineError::TooMany {
                    what: "batches",
                    limit: BATCHES_MAX,
                    remedy: "release those that have ended",
                });
            }
        };
        let slot = &mut slots.all[number as usize];
        debug_assert!(slot.batch.is_none(), "a slot is used again after its batch was released");
        slot.uses += 1;
        slot.batch = Some(batch);
        Ok(BatchId(slot.uses << SLOT_BITS | u64::from(number)))
    }

    /// The batch of a number.
    pub(crate) fn get(&self, id: BatchId) -> Result<Arc<Submission>, EngineError> {
        let slots = self.read();
        let slot = slots.all.get(slot_of(id));
        slot.filter(|slot| slot.uses == id.0 >> SLOT_BITS)
            .and_then(|slot| slot.batch.clone())
            .ok_or(unknown(id))
    }

    /// Forgets a batch that is over.
    pub(crate) fn release(&self, id: BatchId) -> Result<(), EngineError> {
        let batch = self.get(id)?;
        if !batch.is_over() {
            return Err(BatchError::Busy { batch: id.0 }.into());
        }
        let mut slots = self.write();
        let slot = slots.all.get_mut(slot_of(id)).filter(|slot| slot.uses == id.0 >> SLOT_BITS);
        let taken = slot.and_then(|slot| slot.batch.take());
        taken.ok_or(unknown(id))?;
        slots.free.push(slot_of(id) as u32);
        debug_assert!(slots.free.len() <= slots.all.len(), "a slot is released once");
        Ok(())
    }

    /// Ends all that wait for their peers to be looked up.
    pub(crate) fn give_up_waiting(&self, reason: &EngineError) {
        let slots = self.read();
        let all = slots.all.iter().filter_map(|slot| slot.batch.as_ref());
        all.for_each(|submission| submission.give_up_waiting(reason));
    }

    fn read(&self) -> RwLockReadGuard<'_, Slots> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn slot_of(id: BatchId) -> usize {
    (id.0 & ((1 << SLOT_BITS) - 1)) as usize
}

fn unknown(id: BatchId) -> EngineError {
    BatchError::Unknown { batch: id.0, index: 0 }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn begun(pieces: u32) -> (Arc<Submission>, Arc<Batch>) {
        let pieces = [pieces].into_iter();
        let batch = Arc::new(Batch::new(pieces, Vec::new(), None, None, None));
        (Arc::new(Submission::new(batch.clone())), batch)
    }

    fn batch(pieces: u32) -> Arc<Submission> {
        begun(pieces).0
    }

    #[test]
    fn a_batch_in_flight_is_not_released() {
        let table = BatchTable::default();
        let (submission, open) = begun(1);
        let id = table.insert(submission.clone()).unwrap();
        assert_eq!(table.release(id), Err(BatchError::Busy { batch: id.0 }.into()));
        open.failed(0, &EngineError::Canceled);
        submission.settle();
        table.release(id).unwrap();
        assert_eq!(table.release(id), Err(unknown(id)));
    }

    #[test]
    fn the_table_is_bounded() {
        let table = BatchTable::default();
        let done = batch(0);
        let ids: Vec<_> = (0..BATCHES_MAX).map(|_| table.insert(done.clone()).unwrap()).collect();
        assert!(matches!(table.insert(done.clone()), Err(EngineError::TooMany { .. })));
        table.release(ids[7]).unwrap();
        table.insert(done).unwrap();
    }

    proptest! {
        /// Against a map that never uses a number twice.
        #[test]
        fn numbers_are_never_confused(
            steps in proptest::collection::vec((any::<bool>(), any::<u16>()), 1..200),
        ) {
            let table = BatchTable::default();
            let mut living: HashMap<u64, Arc<Submission>> = HashMap::new();
            let mut dead = Vec::new();
            for (insert, pick) in steps {
                if insert {
                    let made = batch(0);
                    let id = table.insert(made.clone()).unwrap();
                    prop_assert!(id.0 != 0 && !dead.contains(&id.0));
                    prop_assert!(living.insert(id.0, made).is_none());
                } else if !living.is_empty() {
                    let mut numbers: Vec<_> = living.keys().copied().collect();
                    numbers.sort_unstable();
                    let number = numbers[usize::from(pick) % numbers.len()];
                    table.release(BatchId(number)).unwrap();
                    living.remove(&number);
                    dead.push(number);
                }
                for (number, made) in &living {
                    prop_assert!(Arc::ptr_eq(made, &table.get(BatchId(*number)).unwrap()));
                }
                for number in &dead {
                    prop_assert!(table.get(BatchId(*number)).is_err());
                }
            }
        }
    }
}
