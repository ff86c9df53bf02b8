//! What a shard remembers of the objects that owners announce after a restart of the master.
//! Invariant: a key that was written or removed in this life of the master is never taken from an
//! announcement that comes later.

use std::collections::{BTreeMap, HashMap};

use perigee_schemas::record::Record;

use crate::changed_keys::ChangedKeys;
use crate::limits::{ANNOUNCING_MS, DISKS_RETURN_MS, REPAIRS_AFTER_START_MS};
use crate::stored::StoredObjects;

#[derive(Debug, Default)]
pub(crate) struct Rebuild {
    /// When the shard began, once it knows the time.
    began_ms: Option<u64>,
    /// Objects as they were announced, and the sequence of the record that says so.
    announced: HashMap<u32, u64>,
    /// Objects with fewer replicas in memory than they are to have, and how many that are: their
    /// owners may still announce the others.
    missing: BTreeMap<u32, u8>,
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
            let missing = std::mem::take(&mut self.missing);
            *self = Self { began_ms: Some(began_ms), missing, is_over: true, ..Self::default() };
        }
        ends
    }

    /// Whether disks of an earlier life of the master may still be on their way back. A shard that
    /// has seen nothing of an earlier life awaits none.
    pub(crate) fn awaits_disks(&self, now_ms: u64) -> bool {
        !self.announced.is_empty()
            && self.began_ms.is_none_or(|began| now_ms.saturating_sub(began) < DISKS_RETURN_MS)
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

    /// An object is to have so many replicas in memory, and has some of them.
    pub(crate) fn note_wanted(&mut self, object: u32, replicas: u8, present: usize) {
        let wanted = replicas.max(self.wanted(object));
        match wanted > 1 && usize::from(wanted) > present {
            true => self.missing.insert(object, wanted),
            false => self.missing.remove(&object),
        };
    }

    /// How many replicas an object is to have that has fewer; 0 for others.
    pub(crate) fn wanted(&self, object: u32) -> u8 {
        self.missing.get(&object).copied().unwrap_or_default()
    }

    /// Takes an object that lacks replicas which no owner has announced in time.
    pub(crate) fn take_missing(&mut self, now_ms: u64) -> Option<(u32, u8)> {
        let began_ms = self.began_ms.unwrap_or(now_ms);
        let is_time = now_ms.saturating_sub(began_ms) >= REPAIRS_AFTER_START_MS;
        if is_time { self.missing.pop_first() } else { None }
    }

    /// An object was written, or is gone.
    pub(crate) fn forget(&mut self, object: u32) {
        if !self.announced.is_empty() {
            self.announced.remove(&object);
        }
        if !self.missing.is_empty() {
            self.missing.remove(&object);
        }
    }

    /// Panics unless it only knows objects that there are.
    pub(crate) fn check(&self, is_known: impl Fn(u32) -> bool) {
        let mut objects = self.announced.keys().chain(self.missing.keys());
        assert!(objects.all(|object| is_known(*object)), "what is gone is forgotten");
        assert!(self.missing.values().all(|wanted| *wanted > 1), "one replica is never missing");
    }

    /// Whether what is known of an object was announced, and is older than a record.
    pub(crate) fn is_announced_before(
        &self,
        stored: &StoredObjects,
        object: u32,
        record: &Record<'_>,
    ) -> bool {
        match self.announced(object) {
            Some(known) => known < record.sequence,
            None => stored.is_older_on_disk(object, record.generation),
        }
    }
}
