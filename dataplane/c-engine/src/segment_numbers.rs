//! The numbers by which callers know segments. Invariant: a number names one segment only; a name
//! that was removed and is opened again has another number.

use crate::limits::SEGMENTS_MAX;
use perigee_c::ArgumentError;
use perigee_engine::EngineError;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The engine's own segment.
pub(crate) const LOCAL_SEGMENT: i32 = 0;

/// Segments that were opened.
#[derive(Debug, Default)]
pub(crate) struct SegmentNumbers(Mutex<SegmentNames>);

#[derive(Debug, Default)]
struct SegmentNames {
    newest: i32,
    names: HashMap<i32, String>,
    numbers: HashMap<String, i32>,
}

impl SegmentNumbers {
    /// The number of a name, if it has one.
    pub(crate) fn known(&self, name: &str) -> Option<i32> {
        self.lock().numbers.get(name).copied()
    }

    /// Numbers a name.
    pub(crate) fn number(&self, name: &str) -> Result<i32, EngineError> {
        let mut all = self.lock();
        if let Some(known) = all.numbers.get(name) {
            return Ok(*known);
        }
        let next = all.newest.checked_add(1).filter(|_| all.names.len() < SEGMENTS_MAX);
        let next = next.ok_or(EngineError::TooMany {
            what: "open segments",
            limit: SEGMENTS_MAX,
            remedy: "remove those of peers that are gone with removeLocalSegment()",
        })?;
        all.newest = next;
        all.names.insert(next, name.to_owned());
        all.numbers.insert(name.to_owned(), next);
        Ok(next)
    }

    /// The name of a number that is not the engine's own.
    pub(crate) fn name(&self, number: i32) -> Result<String, ArgumentError> {
        let name = self.lock().names.get(&number).cloned();
        name.ok_or(ArgumentError::Value("segment_id"))
    }

    /// All names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().numbers.keys().cloned().collect()
    }

    /// Takes the number of a name back.
    pub(crate) fn remove(&self, name: &str) {
        let mut all = self.lock();
        if let Some(number) = all.numbers.remove(name) {
            all.names.remove(&number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SegmentNames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_segment_only() {
        let numbers = SegmentNumbers::default();
        let first = numbers.number("a").unwrap();
        assert!(first > LOCAL_SEGMENT);
        assert_eq!(numbers.number("a"), Ok(first));
        assert_ne!(numbers.number("b"), Ok(first));
        numbers.remove("a");
        assert_eq!(numbers.name(first), Err(ArgumentError::Value("segment_id")));
        let again = numbers.number("a").unwrap();
        assert_ne!(again, first);
        assert_eq!(numbers.name(again), Ok("a".to_owned()));
    }
}
