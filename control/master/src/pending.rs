//! Unfinished puts: who writes which replicas since when.
//! Invariant: an object has the flag `PENDING` exactly while it has an entry here.

use std::collections::{BTreeMap, BTreeSet};

/// What tells one put of a key from any other of it, so that a late message ends or frees only its own put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PutName {
    /// The writer.
    pub(crate) client: u128,
    /// Generation of the first replica that the writer was given.
    pub(crate) generation: u64,
}

/// A started put that has neither ended nor been revoked.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) name: PutName,
    pub(crate) started_ms: u64,
    /// First replica being written, or `NONE` if all were lost with their segments.
    pub(crate) first: u32,
    pub(crate) hard_pin: bool,
    pub(crate) soft_pin: PendingPin,
}

/// What the end of the put does to the soft pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingPin {
    /// Pin for so long after the end of the put.
    For(u64),
    /// The pin of the replaced object, which ends at this time.
    Until(u64),
    /// No pin.
    None,
}

#[derive(Debug, Default)]
pub(crate) struct PendingPuts {
    by_object: BTreeMap<u32, Pending>,
    by_start: BTreeSet<(u64, u32)>,
}

impl PendingPuts {
    pub(crate) fn insert(&mut self, object: u32, pending: Pending) {
        self.by_start.insert((pending.started_ms, object));
        self.by_object.insert(object, pending);
    }

    pub(crate) fn get(&self, object: u32) -> Option<&Pending> {
        self.by_object.get(&object)
    }

    pub(crate) fn get_mut(&mut self, object: u32) -> Option<&mut Pending> {
        self.by_object.get_mut(&object)
    }

    pub(crate) fn remove(&mut self, object: u32) -> Option<Pending> {
        let pending = self.by_object.remove(&object)?;
        self.by_start.remove(&(pending.started_ms, object));
        Some(pending)
    }

    /// The object whose put is unfinished for the longest time, if it started at or before `until_ms`.
    pub(crate) fn oldest(&self, until_ms: u64) -> Option<u32> {
        let &(started_ms, object) = self.by_start.first()?;
        (started_ms <= until_ms).then_some(object)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_object.len()
    }
}
