//! Walks over all keys in bounded steps, so that other calls get their turn in between.
//! Invariant: a walk ends after as many steps as it takes to pass the keys that were there when it began; keys that come
//! or go meanwhile may be met or not.

use perigee_schemas::Status;
use regex::bytes::Regex;

use crate::limits::{PATTERN_BYTES_MAX, SCAN_STEP_OBJECTS};

use super::Shard;

/// Which keys a walk is about.
#[derive(Clone, Debug)]
pub struct Pattern(Option<Regex>);

impl Pattern {
    /// Every key.
    pub fn any() -> Self {
        Self(None)
    }

    /// The keys in which a regular expression is found.
    ///
    /// # Errors
    /// `InvalidParams` for a text that is no regular expression, or too long.
    pub fn compile(text: &str) -> Result<Self, Status> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(Status::InvalidParams);
        }
        let compiled = Regex::new(text).map_err(|_| Status::InvalidParams)?;
        Ok(Self(Some(compiled)))
    }

    fn matches(&self, key: &[u8]) -> bool {
        self.0.as_ref().is_none_or(|regex| regex.is_match(key))
    }
}

/// How far a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    next: u32,
    end: u32,
}

impl Scan {
    /// Whether nothing is left to look at.
    pub fn has_ended(&self) -> bool {
        self.next >= self.end
    }

    fn step(&mut self) -> std::ops::Range<u32> {
        let from = self.next;
        self.next = self.end.min(from.saturating_add(SCAN_STEP_OBJECTS));
        from..self.next
    }
}

impl Shard {
    /// A walk over the keys of now.
    pub fn scan(&self) -> Scan {
        let end = self.objects.bound();
        Scan { next: 0, end }
    }

    /// One step of a removal: of the keys met, those that can be removed are; returns how many. `force` ignores leases.
    pub fn remove_step(
        &mut self,
        now_ms: u64,
        scan: &mut Scan,
        pattern: &Pattern,
        force: bool,
    ) -> u64 {
        self.begin(now_ms);
        let mut removed = 0;
        for id in scan.step() {
            let key = self.objects.get(id).map(|record| &record.key);
            if key.is_some_and(|key| pattern.matches(key)) {
                removed += u64::from(self.remove_object(id, force).is_ok());
            }
        }
        removed
    }

    /// One step of a listing: calls `each` with the readable keys met.
    pub fn list_step(&self, scan: &mut Scan, pattern: &Pattern, mut each: impl FnMut(&[u8])) {
        for id in scan.step() {
            let key = self.objects.get(id).map(|record| &record.key);
            if let Some(key) = key.filter(|key| pattern.matches(key))
                && self.is_complete(id)
            {
                each(key);
            }
        }
    }
}
