//! Requests that stand for the values of a histogram: each bucket shows the last one that was kept,
//! so that a reader of a percentile finds one to look into.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// One value with the request it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    /// Name of the request.
    pub trace: u128,
    /// In the unit of the bounds.
    pub value: u64,
    /// Milliseconds since 1970.
    pub seen_ms: u64,
}

impl Exemplar {
    /// A value that was seen now.
    #[must_use]
    pub fn now(trace: u128, value: u64) -> Self {
        let seen = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { trace, value, seen_ms: u64::try_from(seen.as_millis()).unwrap_or(u64::MAX) }
    }
}

/// The last exemplar of each bucket; a bucket without one has no place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketExemplars(Vec<(usize, Exemplar)>);

impl BucketExemplars {
    /// Puts one in, unless the bucket has a later one.
    pub fn put(&mut self, bucket: usize, exemplar: Exemplar) {
        match self.0.iter_mut().find(|(other, _)| *other == bucket) {
            None => self.0.push((bucket, exemplar)),
            Some((_, held)) if held.seen_ms <= exemplar.seen_ms => *held = exemplar,
            Some(_) => {}
        }
    }

    /// The one of a bucket.
    #[must_use]
    pub fn of(&self, bucket: usize) -> Option<Exemplar> {
        let found = self.0.iter().find(|(other, _)| *other == bucket);
        found.map(|(_, exemplar)| *exemplar)
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(bucket, exemplar)| self.put(*bucket, *exemplar));
    }
}

/// Exemplars that any thread puts in, of requests that are kept; others never come here.
#[derive(Debug, Default)]
pub(crate) struct SharedExemplars(Mutex<BucketExemplars>);

impl SharedExemplars {
    pub(crate) fn put(&self, bucket: usize, exemplar: Exemplar) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(bucket, exemplar);
    }

    pub(crate) fn add_to(&self, totals: &mut BucketExemplars) {
        totals.merge(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_has_its_latest_one() {
        let one = |trace, seen_ms| Exemplar { trace, value: 5, seen_ms };
        let mut all = BucketExemplars::default();
        all.put(3, one(1, 10));
        all.put(3, one(2, 9));
        all.put(4, one(3, 1));
        let mut other = BucketExemplars::default();
        other.put(3, one(4, 11));
        all.merge(&other);
        assert_eq!([3, 4, 5].map(|at| all.of(at).map(|it| it.trace)), [Some(4), Some(3), None]);
    }
}
