//! The yardstick: exact LRU over blocks, in leaf-first order.
//! Invariant: it holds exactly `capacity` blocks and forgets the least recently used one first.

use std::collections::{BTreeMap, HashMap};

/// Blocks that an ideal LRU of `capacity` blocks serves as leading runs.
pub(super) fn hits(requests: &[Vec<u64>], capacity: usize) -> usize {
    let mut touched: HashMap<u64, u64> = HashMap::new();
    let mut order: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut hits, mut clock) = (0, 0);
    for request in requests {
        hits += request.iter().take_while(|block| touched.contains_key(block)).count();
        for block in request.iter().rev() {
            clock += 1;
            if let Some(before) = touched.insert(*block, clock) {
                order.remove(&before);
            }
            order.insert(clock, *block);
        }
        while order.len() > capacity {
            if let Some((_, block)) = order.pop_first() {
                touched.remove(&block);
            }
        }
    }
    hits
}
