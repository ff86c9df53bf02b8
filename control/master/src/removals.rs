//! Removals in earlier lives of the master, as owners say who heard of them: what an owner who was
//! away then announces of such keys is void.
//! Invariant: of what is noted nothing older is taken over; what was written later is.

use std::collections::HashMap;

use perigee_schemas::TenantId;
use perigee_schemas::record::Record;

use crate::limits::{REMOVED_KEYS_MAX, REMOVED_PATTERNS_MAX};
use crate::pattern::Pattern;

/// Stands for all tenants where a record names one; no tenant can be called that.
const EVERY_TENANT: &[u8] = b"_";

/// When something was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Removal {
    /// Records of what was there have smaller sequences...
    pub(crate) sequence: u64,
    /// ... and its copies smaller generations.
    pub(crate) generation: u64,
}

impl Removal {
    pub(crate) fn of(record: &Record<'_>) -> Self {
        Self { sequence: record.sequence, generation: record.generation }
    }

    /// The same keys were removed another time.
    fn again(&mut self, other: Self) {
        self.sequence = self.sequence.max(other.sequence);
        self.generation = self.generation.max(other.generation);
    }
}

/// What a shard has heard of removals.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// By hash of the key.
    keys: HashMap<u64, Removal>,
    /// Each pattern once.
    patterns: Vec<RemovedPattern>,
}

#[derive(Debug)]
struct RemovedPattern {
    pattern: Pattern,
    removal: Removal,
}

impl Removals {
    pub(crate) fn note_key(&mut self, hash: u64, removal: Removal) {
        if self.keys.len() < REMOVED_KEYS_MAX || self.keys.contains_key(&hash) {
            self.keys.entry(hash).or_default().again(removal);
        }
    }

    /// Notes a removal by pattern; returns what it was about, if that can be understood.
    pub(crate) fn note_pattern(&mut self, record: &Record<'_>) -> Option<Pattern> {
        let pattern = pattern_of(record)?;
        let removal = Removal::of(record);
        let is_it = |known: &&mut RemovedPattern| names_of(&known.pattern) == names_of(&pattern);
        let has_room = self.patterns.len() < REMOVED_PATTERNS_MAX;
        match self.patterns.iter_mut().find(is_it) {
            Some(known) => known.removal.again(removal),
            None if has_room => {
                self.patterns.push(RemovedPattern { pattern: pattern.clone(), removal });
            }
            None => {}
        }
        Some(pattern)
    }

    /// Whether what a record says of a key was removed later.
    pub(crate) fn is_record_void(&self, hash: u64, record: &Record<'_>) -> bool {
        self.any(hash, record.key, |removal| record.sequence < removal.sequence)
    }

    /// Whether a copy of a key on a disk was removed later.
    pub(crate) fn is_copy_void(&self, hash: u64, key: &[u8], generation: u64) -> bool {
        self.any(hash, key, |removal| generation < removal.generation)
    }

    fn any(&self, hash: u64, key: &[u8], is_later: impl Fn(&Removal) -> bool) -> bool {
        let mut patterns = self.patterns.iter().filter(|of| is_later(&of.removal));
        self.keys.get(&hash).is_some_and(&is_later) || patterns.any(|of| of.pattern.matches(key))
    }
}

/// The tenant and the expression of a pattern, as a record has them.
pub(crate) fn names_of(pattern: &Pattern) -> (&[u8], &[u8]) {
    let tenant = pattern.tenant().map_or(EVERY_TENANT, |tenant| tenant.name().as_bytes());
    (tenant, pattern.text().as_bytes())
}

fn pattern_of(record: &Record<'_>) -> Option<Pattern> {
    let pattern = Pattern::compile(std::str::from_utf8(record.key).ok()?).ok()?;
    if record.group == EVERY_TENANT {
        return Some(pattern);
    }
    let tenant = TenantId::parse(std::str::from_utf8(record.group).ok()?).ok()?;
    Some(pattern.of(tenant))
}
