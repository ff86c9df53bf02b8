//! Lists of a segment's replicas in order of their last touch, one per class and kind of lease.
//! Invariant: in each list the newest end was linked last. Leases end in this order but for what changed its class under a
//! running one, so a lease is looked at before a replica goes.

use crate::replica::Replica;
use crate::slab::{NONE, Slab};

/// How much an object is worth keeping; the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Never read.
    Cold,
    /// Read at least once.
    Hot,
    /// Soft-pinned.
    Pinned,
}

impl Class {
    pub(crate) fn of(pinned: bool, hit: bool) -> Self {
        match (pinned, hit) {
            (true, _) => Self::Pinned,
            (false, true) => Self::Hot,
            (false, false) => Self::Cold,
        }
    }
}

/// Which lease was the last one granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// None since it was put.
    Free,
    /// An existence probe's; may be broken when space is needed.
    Probed,
    /// A reader's; never broken.
    Read,
}

/// One of the lists of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListName {
    /// Evictable, now or when the lease has ended.
    Evictable(Class, Phase),
    /// Not evictable: hard-pinned, unfinished, or in a group with such a member.
    Held,
}

const LISTS: usize = 10;

impl ListName {
    const ALL: [Self; LISTS] = {
        use Class::{Cold, Hot, Pinned};
        use Phase::{Free, Probed, Read};
        [
            Self::Evictable(Cold, Free),
            Self::Evictable(Cold, Probed),
            Self::Evictable(Cold, Read),
            Self::Evictable(Hot, Free),
            Self::Evictable(Hot, Probed),
            Self::Evictable(Hot, Read),
            Self::Evictable(Pinned, Free),
            Self::Evictable(Pinned, Probed),
            Self::Evictable(Pinned, Read),
            Self::Held,
        ]
    };

    /// All lists but the one of what stays.
    pub(crate) fn evictable() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|list| *list != Self::Held)
    }

    fn slot(self) -> usize {
        match self {
            Self::Evictable(class, phase) => class as usize * 3 + phase as usize,
            Self::Held => LISTS - 1,
        }
    }
}

/// The lists of one segment; the links are in the replicas.
#[derive(Debug)]
pub(crate) struct Recency {
    newest: [u32; LISTS],
    oldest: [u32; LISTS],
    len: usize,
}

impl Recency {
    pub(crate) fn new() -> Self {
        Self {
            newest: [NONE; LISTS],
            oldest: [NONE; LISTS],
            len: 0,
        }
    }

    /// Number of replicas in all lists.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The replica of a list that was linked first, or `NONE`.
    pub(crate) fn oldest(&self, list: ListName) -> u32 {
        self.oldest[list.slot()]
    }

    /// Any replica, or `NONE`.
    pub(crate) fn any(&self) -> u32 {
        let oldest = ListName::ALL.iter().map(|list| self.oldest(*list));
        oldest.into_iter().find(|id| *id != NONE).unwrap_or(NONE)
    }

    /// Links a replica as the newest of `list`.
    pub(crate) fn link(&mut self, replicas: &mut Slab<Replica>, id: u32, list: ListName) {
        let slot = list.slot();
        let before = std::mem::replace(&mut self.newest[slot], id);
        debug_assert_ne!(before, id, "it is in no list");
        let replica = &mut replicas[id];
        debug_assert!(!replica.follows, "what follows is in no list");
        replica.list = list;
        replica.newer = NONE;
        replica.older = before;
        if before == NONE {
            self.oldest[slot] = id;
        } else {
            replicas[before].newer = id;
        }
        self.len += 1;
    }

    /// Takes a replica out of its list.
    pub(crate) fn unlink(&mut self, replicas: &mut Slab<Replica>, id: u32) {
        let Replica {
            newer, older, list, ..
        } = replicas[id];
        let slot = list.slot();
        debug_assert!(!replicas[id].follows, "what follows is in no list");
        debug_assert!(newer == NONE || replicas[newer].older == id);
        debug_assert!(older == NONE || replicas[older].newer == id);
        if newer == NONE {
            debug_assert_eq!(self.newest[slot], id, "it ends its own list");
            self.newest[slot] = older;
        } else {
            replicas[newer].older = older;
        }
        if older == NONE {
            debug_assert_eq!(self.oldest[slot], id, "it begins its own list");
            self.oldest[slot] = newer;
        } else {
            replicas[older].newer = newer;
        }
        self.len -= 1;
    }

    /// Takes a replica out of its list: from now on it goes where the leader of these followers goes.
    pub(crate) fn follow(&mut self, replicas: &mut Slab<Replica>, id: u32, followers: &mut u32) {
        self.unlink(replicas, id);
        self.len += 1;
        let next = std::mem::replace(followers, id);
        let replica = &mut replicas[id];
        replica.follows = true;
        replica.newer = NONE;
        replica.older = next;
        if next != NONE {
            replicas[next].newer = id;
        }
    }

    /// Takes a follower out.
    pub(crate) fn unfollow(&mut self, replicas: &mut Slab<Replica>, id: u32, followers: &mut u32) {
        let Replica { newer, older, .. } = replicas[id];
        debug_assert!(replicas[id].follows, "{id} follows");
        if newer == NONE {
            debug_assert_eq!(*followers, id, "it begins its own chain");
            *followers = older;
        } else {
            replicas[newer].older = older;
        }
        if older != NONE {
            replicas[older].newer = newer;
        }
        replicas[id].follows = false;
        self.len -= 1;
    }

    /// Takes a leader out of its list and puts its first follower, which is returned, into its very place.
    pub(crate) fn succeed(
        &mut self,
        replicas: &mut Slab<Replica>,
        leader: u32,
        followers: &mut u32,
    ) -> u32 {
        let heir = *followers;
        debug_assert_ne!(heir, NONE, "somebody follows");
        self.unfollow(replicas, heir, followers);
        let Replica {
            newer, older, list, ..
        } = replicas[leader];
        let slot = list.slot();
        let replica = &mut replicas[heir];
        (replica.newer, replica.older, replica.list) = (newer, older, list);
        if newer == NONE {
            self.newest[slot] = heir;
        } else {
            replicas[newer].older = heir;
        }
        if older == NONE {
            self.oldest[slot] = heir;
        } else {
            replicas[older].newer = heir;
        }
        heir
    }

    /// Panics unless the links of every list agree in both directions and name replicas of this segment. Returns how
    /// many replicas are in the lists.
    pub(crate) fn check(&self, replicas: &Slab<Replica>, segment: u32) -> usize {
        let mut listed = 0;
        for list in ListName::ALL {
            let slot = list.slot();
            let (mut id, mut older) = (self.oldest[slot], NONE);
            while id != NONE {
                let replica = &replicas[id];
                assert_eq!((replica.list, replica.segment), (list, segment));
                assert_eq!(replica.older, older, "links of {id} in {list:?}");
                assert!(!replica.follows, "{id} is in {list:?} and follows");
                (older, id) = (id, replica.newer);
                listed += 1;
                assert!(listed <= self.len, "{list:?} forms a circle");
            }
            assert_eq!(self.newest[slot], older, "newest end of {list:?}");
        }
        listed
    }

    /// Moves a replica to the newest end of `list`.
    pub(crate) fn relink(&mut self, replicas: &mut Slab<Replica>, id: u32, list: ListName) {
        if self.newest[list.slot()] != id {
            self.unlink(replicas, id);
            self.link(replicas, id, list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_its_own_slot() {
        for (slot, list) in ListName::ALL.iter().enumerate() {
            assert_eq!(list.slot(), slot);
        }
    }
}
