//! What a shard remembers of the objects that owners announce after a restart of the master.
//! Invariant: a key that was written or removed in this life of the master is never taken from an
//! announcement that comes later.

use std::collections::HashMap;

use crate::changed_keys::ChangedKeys;
use crate::limits::ANNOUNCING_MS;

#[derive(Debug, Default)]
pub(crate) struct Rebuild {
    /// When the shard began, once it knows the time.
    began_ms: Option<u64>,
    /// Objects as they were announced, and the sequence of the record that says so.
    announced: HashMap<u32, u64>,
    /// Keys that were written or removed since.
    changed: ChangedKeys,
    is_over: bool,
}

impl Rebuild {
    /// Notes the time. Owners that come long after the start have nothing to announce any more;
    /// whether they have had their time now.
    pub(crate) fn advance(&mut self, now_ms: u64) -> bool {
        let began_ms = *self.began_ms.get_or_insert(now_ms);
        let ends = !self.is_over && now_ms.saturating_sub(began_ms) > ANNOUNCING_MS;
        if ends {
            *self = Self { began_ms: Some(began_ms), is_over: true, ..Self::default() };
        }
        ends
    }

    /// A key was written, or its removal was asked for.
    pub(crate) fn note_change(&mut self, hash: u64) {
        if !self.is_over {
            self.changed.note(hash);
        }
    }

    /// Keys were removed by a pattern, which may match others that are still to be announced.
    pub(crate) fn note_pattern(&mut self) {
        if !self.is_over {
            self.changed.note_all();
        }
    }

    /// Whether what is announced of an unknown key may be out of date.
    pub(crate) fn may_have_changed(&self, hash: u64) -> bool {
        self.is_over || self.changed.may_have(hash)
    }

    pub(crate) fn note_announced(&mut self, object: u32, sequence: u64) {
        let known = self.announced.entry(object).or_default();
        *known = sequence.max(*known);
    }

    /// The sequence under which an object was announced, unless it was written since.
    pub(crate) fn announced(&self, object: u32) -> Option<u64> {
        self.announced.get(&object).copied()
    }

    /// An object was written, or is gone.
    pub(crate) fn forget(&mut self, object: u32) {
        if !self.announced.is_empty() {
            self.announced.remove(&object);
        }
    }

    /// Panics unless it only knows objects that there are.
    pub(crate) fn check(&self, is_known: impl Fn(u32) -> bool) {
        assert!(self.announced.keys().all(|object| is_known(*object)), "what is gone is forgotten");
    }
}
