//! The replicas of a group's part in one segment.
//! Invariant: one of them, the leader, is in the segment's lists; the others follow it and are in
//! none.

use crate::list_name::ListName;
use crate::replicas::Replicas;
use crate::slab::NONE;

#[derive(Debug)]
pub(crate) struct GroupReplica {
    leader: u32,
    /// First of the chain of the others, or `NONE`.
    followers: u32,
    /// Bytes that all of them take.
    bytes: u64,
}

impl GroupReplica {
    /// A place with one replica, which is in a list of the segment.
    pub(crate) fn new(replicas: &Replicas, leader: u32) -> Self {
        Self { leader, followers: NONE, bytes: replicas[leader].extent().bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn has(&self, replicas: &Replicas, id: u32) -> bool {
        self.leader == id || replicas[id].follows()
    }

    /// Takes in a replica that is in a list of the segment.
    pub(crate) fn add(&mut self, replicas: &mut Replicas, id: u32) {
        debug_assert!(!self.has(replicas, id), "{id} is new here");
        debug_assert_eq!(replicas[id].segment, replicas[self.leader].segment);
        self.bytes += replicas[id].extent().bytes;
        replicas.follow(id, &mut self.followers);
    }

    /// Takes a replica out of this place and of the segment's lists; returns whether it was the
    /// last one.
    pub(crate) fn remove(&mut self, replicas: &mut Replicas, id: u32) -> bool {
        debug_assert!(self.has(replicas, id), "{id} is here");
        self.bytes -= replicas[id].extent().bytes;
        if self.leader != id {
            replicas.unfollow(id, &mut self.followers);
        } else if self.followers == NONE {
            replicas.unlink(id);
            return true;
        } else {
            self.leader = replicas.succeed(id, &mut self.followers);
        }
        false
    }

    /// Makes the leader the newest of a list.
    pub(crate) fn relink(&self, replicas: &mut Replicas, list: ListName) {
        replicas.relink(self.leader, list);
    }

    /// All replicas.
    pub(crate) fn all<'a>(&self, replicas: &'a Replicas) -> impl Iterator<Item = u32> + 'a {
        let some = |id: u32| (id != NONE).then_some(id);
        let followers =
            std::iter::successors(some(self.followers), move |id| some(replicas[*id].older));
        std::iter::once(self.leader).chain(followers)
    }
}
