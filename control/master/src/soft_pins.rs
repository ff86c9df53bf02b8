//! When soft pins end.
//! Invariant: an object has the flag `SOFT_PIN` exactly while it has an entry here.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct SoftPins {
    end_ms: BTreeMap<u32, u64>,
    by_end: BTreeSet<(u64, u32)>,
}

impl SoftPins {
    pub(crate) fn pin(&mut self, object: u32, end_ms: u64) {
        self.unpin(object);
        self.end_ms.insert(object, end_ms);
        self.by_end.insert((end_ms, object));
    }

    pub(crate) fn unpin(&mut self, object: u32) {
        if let Some(end_ms) = self.end_ms.remove(&object) {
            self.by_end.remove(&(end_ms, object));
        }
    }

    /// When the pin of an object ends, if it has one.
    pub(crate) fn end_ms(&self, object: u32) -> Option<u64> {
        self.end_ms.get(&object).copied()
    }

    /// An object whose pin has ended and must be unpinned.
    pub(crate) fn due(&self, now_ms: u64) -> Option<u32> {
        let &(end_ms, object) = self.by_end.first()?;
        (end_ms <= now_ms).then_some(object)
    }

    /// Panics unless both orders hold the same pins.
    pub(crate) fn check(&self) {
        assert_eq!(self.end_ms.len(), self.by_end.len());
        for (object, end_ms) in &self.end_ms {
            assert!(self.by_end.contains(&(*end_ms, *object)), "pin of {object}");
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.end_ms.len()
    }
}
