//! The record of one replica: where it lies and its place in its segment's lists.
//! Invariant: every replica is in exactly one list of its segment, or follows one that is, and in
//! one chain of its object.

use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;

use crate::columns::{ReplicaLocation, ReplicaState};
use crate::list_name::ListName;
use crate::slab::{NONE, Slab};

#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) generation: u64,
    /// Offset from the start of the segment.
    pub(crate) offset: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) segment: u32,
    pub(crate) object: u32,
    /// Next replica of the same object, or `NONE`.
    pub(crate) sibling: u32,
    /// Neighbour that was touched later, or `NONE`.
    pub(crate) newer: u32,
    /// Neighbour that was touched earlier, or `NONE`.
    pub(crate) older: u32,
    pub(crate) list: ListName,
    /// It is in no list but follows the one replica of its group's that is; `newer` and `older`
    /// link the followers.
    pub(crate) follows: bool,
}

impl Replica {
    /// The bytes it occupies in the segment: payload and footer.
    pub(crate) fn extent(&self) -> Extent {
        Extent::new(self.offset, extent_bytes(self.payload_bytes))
    }

    /// What clients see.
    pub(crate) fn location(&self, state: ReplicaState) -> ReplicaLocation {
        ReplicaLocation {
            segment: self.segment,
            state,
            offset: self.offset,
            payload_bytes: self.payload_bytes,
            generation: self.generation,
        }
    }
}

impl Slab<Replica> {
    /// The replicas of a chain.
    pub(crate) fn chain(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(some(first), move |id| some(self[*id].sibling))
    }

    /// Takes a replica out of the chain that starts at `first`; returns the new start.
    pub(crate) fn unchain(&mut self, first: u32, id: u32) -> u32 {
        let after = self[id].sibling;
        if first == id {
            return after;
        }
        let before = self.chain(first).find(|other| self[*other].sibling == id);
        debug_assert!(before.is_some(), "{id} is in the chain of {first}");
        if let Some(before) = before {
            self[before].sibling = after;
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain_of(count: u64) -> (Slab<Replica>, u32) {
        let mut replicas = Slab::new();
        let mut first = NONE;
        for generation in 0..count {
            first = replicas.insert(Replica {
                generation,
                offset: 0,
                payload_bytes: 1,
                segment: 0,
                object: 0,
                sibling: first,
                newer: NONE,
                older: NONE,
                list: ListName::Held,
                follows: false,
            });
        }
        (replicas, first)
    }

    #[test]
    fn a_replica_leaves_its_chain_wherever_it_stands() {
        for at in 0..3 {
            let (mut replicas, first) = chain_of(3);
            let leaving = replicas.chain(first).nth(at).unwrap();
            let first = replicas.unchain(first, leaving);
            let left: Vec<u32> = replicas.chain(first).collect();
            assert_eq!(left.len(), 2);
            assert!(!left.contains(&leaving));
        }
        let (mut replicas, first) = chain_of(1);
        assert_eq!(replicas.unchain(first, first), NONE);
    }
}
