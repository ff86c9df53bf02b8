//! What unfinished puts mean for their objects.
//! Invariant: an object has the flag `PENDING` exactly while it has an unfinished put.

use crate::object::Flags;
use crate::pending::Pending;
use crate::stored::StoredObjects;

use super::{PendingPuts, Pins};

impl PendingPuts {
    /// Takes an unfinished put out of the object's.
    pub(crate) fn take(
        &mut self,
        stored: &mut StoredObjects,
        object: u32,
        generation: u64,
    ) -> Option<Pending> {
        let pending = self.remove(object, generation)?;
        debug_assert!(stored.keys[object].flags.has(Flags::PENDING));
        let more = self.first_of(object).is_some();
        stored.keys[object].flags.set(Flags::PENDING, more);
        Some(pending)
    }

    /// Whether an unfinished put of an object has a replica in a segment.
    pub(crate) fn is_written_in(&self, stored: &StoredObjects, object: u32, segment: u32) -> bool {
        let mut replicas = self.of(object).flat_map(|put| stored.replicas.chain(put.first));
        replicas.any(|id| stored.replicas[id].segment == segment)
    }
}

impl Pins {
    /// The pins of an object that can be replaced.
    pub(crate) fn of(stored: &StoredObjects, object: u32) -> Self {
        Self {
            hard: stored.keys[object].flags.has(Flags::HARD_PIN),
            soft_end_ms: stored.soft_pins.end_ms(object),
        }
    }
}
