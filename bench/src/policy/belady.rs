//! The best possible order, which knows the future: what is needed last goes first.
//! Invariant: at most `capacity` blocks are kept between two requests.

use std::collections::{BTreeSet, HashMap};

/// A block is needed in no later request.
const NEVER: usize = usize::MAX;

/// Blocks of unbroken prefixes that are hits in a pool of `capacity` blocks.
pub(super) fn hits(requests: &[Vec<u64>], capacity: usize) -> usize {
    let mut next_uses = next_uses(requests);
    let mut kept: HashMap<u64, (usize, usize)> = HashMap::new();
    // The last one is needed latest, and of those needed together it is the deepest.
    let mut order: BTreeSet<(usize, usize, u64)> = BTreeSet::new();
    let mut hits = 0;
    for request in requests {
        hits += request.iter().take_while(|block| kept.contains_key(block)).count();
        for (depth, block) in request.iter().enumerate() {
            let next = next_uses.get_mut(block).and_then(Vec::pop).unwrap_or(NEVER);
            if let Some((use_at, depth)) = kept.insert(*block, (next, depth)) {
                order.remove(&(use_at, depth, *block));
            }
            order.insert((next, depth, *block));
        }
        while order.len() > capacity {
            if let Some((_, _, block)) = order.pop_last() {
                kept.remove(&block);
            }
        }
    }
    hits
}

/// The numbers of the requests that need a block after the first one that does, the last first.
fn next_uses(requests: &[Vec<u64>]) -> HashMap<u64, Vec<usize>> {
    let mut uses: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, request) in requests.iter().enumerate() {
        for block in request {
            uses.entry(*block).or_default().push(at);
        }
    }
    for requests in uses.values_mut() {
        requests.reverse();
        requests.pop();
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_soonest_stays() {
        let requests = [vec![1], vec![2], vec![3], vec![1], vec![3], vec![2]];
        assert_eq!(hits(&requests, 3), 3);
        assert_eq!(hits(&requests, 2), 2, "2 is needed last, so it goes for 3");
        assert_eq!(hits(&requests, 0), 0);
    }

    #[test]
    fn a_block_after_a_hole_is_no_hit() {
        let requests = [vec![1, 2], vec![3, 2], vec![2]];
        assert_eq!(hits(&requests, 3), 1);
    }
}
