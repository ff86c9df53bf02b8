//! What a shard asks a policy. Invariant: keys are known by their hash alone, so an answer may be
//! wrong for a key whose hash collides, and only costs hits.

use std::fmt::Debug;

use super::kind::ObjectKind;

/// One access to a key of a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyAccess {
    pub(crate) hash: u64,
    /// Of the object from now on.
    pub(crate) kind: ObjectKind,
    /// The shard had it.
    pub(crate) hit: bool,
    /// Stamp of the access.
    pub(crate) stamp: u64,
    /// Number of the call: what one call asks for is hit or missed together.
    pub(crate) call: u64,
}

/// A policy of one shard; `objects` is how many objects the shard has.
pub(crate) trait EvictionPolicy: Debug + Send {
    /// A key is read, or a writer stores it or finds it stored.
    fn accessed(&mut self, access: KeyAccess, objects: usize);

    /// The last replica of a key is evicted.
    fn evicted(&mut self, hash: u64, kind: ObjectKind, objects: usize);

    /// The kind of a key that is stored, if it was evicted so recently that it counts as read;
    /// forgets it.
    fn take_returned(&mut self, hash: u64, objects: usize) -> Option<ObjectKind>;

    /// What an object of a kind is worth that was touched so many touches ago. The least goes
    /// first.
    fn worth(&self, kind: ObjectKind, age: u64) -> u64;

    /// Panics unless its records are within their bounds.
    fn check(&self) {}
}

/// What an object is worth if all that counts is its age.
pub(super) fn worth_by_age(age: u64) -> u64 {
    u64::MAX - age
}
