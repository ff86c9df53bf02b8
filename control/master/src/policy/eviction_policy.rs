//! What a shard asks a policy. Invariant: keys are known by their hash alone, so an answer may be
//! wrong for a key whose hash collides, and only costs hits.

use std::fmt::Debug;

/// A policy of one shard; `objects` is how many objects the shard has.
pub(crate) trait EvictionPolicy: Debug + Send {
    /// A key is read, or a writer stores it or finds it stored.
    fn accessed(&mut self, hash: u64, objects: usize);

    /// The last replica of a key is evicted.
    fn evicted(&mut self, hash: u64, objects: usize);

    /// Whether a key that is stored was evicted so recently that it counts as read; forgets it.
    fn take_returned(&mut self, hash: u64, objects: usize) -> bool;

    /// How many times as old an object counts that was never read.
    fn cold_age_factor(&self) -> u64;

    /// Panics unless its records are within their bounds.
    fn check(&self) {}
}
