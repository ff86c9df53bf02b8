//! Objects that lie on a disk alone and are not packed yet, in the order in which they are looked
//! at again.
//! Invariant: each of them is here; what is here may be something else since.

use std::collections::{BTreeSet, HashMap};

#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// When an object is looked at, and its number.
    due: BTreeSet<(u64, u32)>,
    due_of: HashMap<u32, u64>,
}

impl Packing {
    /// An object lies on a disk alone, or is looked at again at this time.
    pub(crate) fn note(&mut self, object: u32, due_ms: u64) {
        if let Some(before) = self.due_of.insert(object, due_ms) {
            self.due.remove(&(before, object));
        }
        self.due.insert((due_ms, object));
    }

    /// Takes the next object that is to be looked at by now.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<u32> {
        let &(due_ms, object) = self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        self.due.remove(&(due_ms, object));
        self.due_of.remove(&object);
        Some(object)
    }

    /// Whether an object is to be looked at.
    pub(crate) fn has(&self, object: u32) -> bool {
        self.due_of.contains_key(&object)
    }

    /// Panics unless each object is to be looked at once.
    pub(crate) fn check(&self) {
        assert_eq!(self.due.len(), self.due_of.len());
        assert!(self.due.iter().all(|(due_ms, object)| self.due_of.get(object) == Some(due_ms)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_looked_at_once_and_at_its_latest_time() {
        let mut packing = Packing::default();
        for (object, due_ms) in [(1, 10), (2, 5), (1, 3), (2, 20)] {
            packing.note(object, due_ms);
            packing.check();
        }
        assert_eq!([2, 3, 19].map(|now_ms| packing.take_due(now_ms)), [None, Some(1), None]);
        assert!(packing.has(2) && !packing.has(1));
        assert_eq!((packing.take_due(20), packing.take_due(99)), (Some(2), None));
    }
}
