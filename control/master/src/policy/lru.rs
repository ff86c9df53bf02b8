//! The baseline: the least recently used goes first.

use super::eviction_policy::{EvictionPolicy, KeyAccess, worth_by_age};
use super::kind::ObjectKind;

#[derive(Debug)]
pub(super) struct Lru;

impl EvictionPolicy for Lru {
    fn accessed(&mut self, _access: KeyAccess, _objects: usize) {}

    fn evicted(&mut self, _hash: u64, _kind: ObjectKind, _objects: usize) {}

    fn take_returned(&mut self, _hash: u64, _objects: usize) -> Option<ObjectKind> {
        None
    }

    fn worth(&self, _kind: ObjectKind, age: u64) -> u64 {
        worth_by_age(age)
    }
}
