//! Walks over all keys in bounded steps, so that other calls get their turn in between.
//! Invariant: a walk ends after as many steps as it takes to pass the keys that were there when it began; keys that come
//! or go meanwhile may be met or not.

use std::sync::Arc;

use perigee_schemas::Status;
use regex::bytes::{Regex, RegexBuilder};

use crate::limits::{PATTERN_BYTES_MAX, PROGRAM_BYTES, SCAN_STEP_OBJECTS, SCAN_STEP_WORK};

use super::Shard;

/// Which keys a walk is about.
#[derive(Clone, Debug)]
pub struct Pattern(Option<Arc<Program>>);

#[derive(Debug)]
struct Program {
    regex: Regex,
    /// The program takes no more memory than this; the time to search a key grows with it.
    bytes: usize,
}

impl Pattern {
    /// Every key.
    pub fn any() -> Self {
        Self(None)
    }

    /// The keys in which a regular expression is found. It is matched byte by byte, and `\w`, `\d`, `\s` and `\b` mean
    /// ASCII, as in the expressions that Mooncake's clients send.
    ///
    /// # Errors
    /// `InvalidParams` for a text that is no regular expression, too long, or too large once compiled.
    pub fn compile(text: &str) -> Result<Self, Status> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(Status::InvalidParams);
        }
        let program = |bytes: &usize| {
            let regex = RegexBuilder::new(text)
                .unicode(false)
                .size_limit(*bytes)
                .build();
            regex.ok().map(|regex| Program {
                regex,
                bytes: *bytes,
            })
        };
        // The least size that will do tells how large the program is; a size that is too small is found out at once.
        let program = PROGRAM_BYTES.iter().find_map(program);
        let program = program.ok_or(Status::InvalidParams)?;
        Ok(Self(Some(Arc::new(program))))
    }

    fn matches(&self, key: &[u8]) -> bool {
        let program = self.0.as_ref();
        program.is_none_or(|program| program.regex.is_match(key))
    }

    /// What it may cost to look at a key, in bytes of the key times bytes of the program.
    fn work(&self, key: &[u8]) -> usize {
        let program_bytes = self.0.as_ref().map_or(1, |program| program.bytes);
        key.len().saturating_mul(program_bytes)
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

    /// Where it is and where it ends, for [`Shard::scan_from`].
    pub fn position(&self) -> (u32, u32) {
        (self.next, self.end)
    }

    fn take(&mut self) -> Option<u32> {
        let id = self.next;
        self.next += u32::from(!self.has_ended());
        (id < self.end).then_some(id)
    }
}

/// What is left of one step of a walk.
struct Budget {
    objects: u32,
    work: usize,
}

impl Budget {
    fn of_a_step() -> Self {
        Self {
            objects: SCAN_STEP_OBJECTS,
            work: SCAN_STEP_WORK,
        }
    }

    /// The next object that matches. A step looks at one key at least, so that walks end.
    fn next(&mut self, shard: &Shard, scan: &mut Scan, pattern: &Pattern) -> Option<u32> {
        while self.objects > 0 && self.work > 0 {
            let id = scan.take()?;
            self.objects -= 1;
            let Some(object) = shard.objects.get(id) else {
                continue;
            };
            self.work = self.work.saturating_sub(pattern.work(&object.key));
            if pattern.matches(&object.key) {
                return Some(id);
            }
        }
        None
    }
}

impl Shard {
    /// A walk over the keys of now.
    pub fn scan(&self) -> Scan {
        let end = self.objects.bound();
        Scan { next: 0, end }
    }

    /// The walk that was at this position. Any two numbers are fine: they end within the keys of now.
    pub fn scan_from(&self, (next, end): (u32, u32)) -> Scan {
        let end = end.min(self.objects.bound());
        Scan { next, end }
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
        let (mut removed, mut budget) = (0, Budget::of_a_step());
        while let Some(id) = budget.next(self, scan, pattern) {
            removed += u64::from(self.remove_object(id, force).is_ok());
        }
        removed
    }

    /// One step of a listing: calls `each` with the readable keys met, until it says that it has enough.
    pub fn list_step(
        &self,
        scan: &mut Scan,
        pattern: &Pattern,
        mut each: impl FnMut(&[u8]) -> bool,
    ) {
        let mut budget = Budget::of_a_step();
        while let Some(id) = budget.next(self, scan, pattern) {
            if self.is_complete(id) && !each(&self.objects[id].key) {
                return;
            }
        }
    }
}
