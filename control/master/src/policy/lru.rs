//! The baseline: the least recently used goes first.

use super::eviction_policy::{Access, EvictionPolicy, worth_by_age};
use super::kind::Kind;

#[derive(Debug)]
pub(super) struct Lru;

impl EvictionPolicy for Lru {
    fn accessed(&mut self, _access: Access, _objects: usize) {}

    fn evicted(&mut self, _hash: u64, _kind: Kind, _objects: usize) {}

    fn take_returned(&mut self, _hash: u64, _objects: usize) -> Option<Kind> {
        None
    }

    fn worth(&self, _kind: Kind, age: u64) -> u64 {
        worth_by_age(age)
    }
}
