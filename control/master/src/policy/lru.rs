//! The baseline: the least recently used goes first.

use super::eviction_policy::EvictionPolicy;

#[derive(Debug)]
pub(super) struct Lru;

impl EvictionPolicy for Lru {
    fn accessed(&mut self, _hash: u64, _objects: usize) {}

    fn evicted(&mut self, _hash: u64, _objects: usize) {}

    fn take_returned(&mut self, _hash: u64, _objects: usize) -> bool {
        false
    }

    fn cold_age_factor(&self) -> u64 {
        1
    }
}
