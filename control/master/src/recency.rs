//! Lists of a segment's replicas in order of their last touch, one per class and kind of lease.
//! Invariant: in each list the newest end was linked last. Leases end in this order but for what
//! changed its class under a running one, so a lease is looked at before a replica goes.

use crate::list_name::LISTS;
use crate::list_name::ListName;
use crate::replica::Replica;
use crate::slab::{NONE, Slab};
use crate::tenant::TenantLane;

/// The lists of one segment; the links are in the replicas.
#[derive(Debug)]
pub(crate) struct Recency {
    newest: [u32; LISTS],
    oldest: [u32; LISTS],
    /// A bit for each list that has replicas.
    filled: u64,
    len: usize,
    /// Bytes of the replicas that are ready to go, without followers.
    ready_bytes: u64,
}

impl Default for Recency {
    fn default() -> Self {
        Self { newest: [NONE; LISTS], oldest: [NONE; LISTS], filled: 0, len: 0, ready_bytes: 0 }
    }
}

impl Recency {
    /// Number of replicas in all lists.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the replicas that are ready to go, without those that follow them.
    pub(crate) fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    /// The replica of a list that was linked first, or `NONE`.
    pub(crate) fn oldest(&self, list: ListName) -> u32 {
        self.oldest[list.slot()]
    }

    /// The lists with replicas, of those that this mask has.
    pub(crate) fn filled(&self, mask: u64) -> impl Iterator<Item = ListName> + use<> {
        let mut left = self.filled & mask;
        std::iter::from_fn(move || {
            let slot = left.checked_ilog2()?;
            left &= !(1 << slot);
            Some(ListName::ALL[slot as usize])
        })
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
        debug_assert!(!replica.follows(), "what follows is in no list");
        replica.set_list(list);
        replica.newer = NONE;
        replica.older = before;
        if before == NONE {
            self.oldest[slot] = id;
        } else {
            replicas[before].newer = id;
        }
        self.len += 1;
        self.filled |= 1 << slot;
        if list == ListName::Ready {
            self.ready_bytes += replicas[id].extent().bytes;
        }
    }

    /// Takes a replica out of its list.
    pub(crate) fn unlink(&mut self, replicas: &mut Slab<Replica>, id: u32) {
        let Replica { newer, older, .. } = replicas[id];
        let list = replicas[id].list();
        let slot = list.slot();
        debug_assert!(!replicas[id].follows(), "what follows is in no list");
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
        self.filled &= !(u64::from(self.newest[slot] == NONE) << slot);
        if list == ListName::Ready {
            self.ready_bytes -= replicas[id].extent().bytes;
        }
    }

    /// Takes a replica out of its list: from now on it goes where the leader of these followers
    /// goes.
    pub(crate) fn follow(&mut self, replicas: &mut Slab<Replica>, id: u32, followers: &mut u32) {
        self.unlink(replicas, id);
        self.len += 1;
        let next = std::mem::replace(followers, id);
        let replica = &mut replicas[id];
        replica.set_follows(true);
        replica.newer = NONE;
        replica.older = next;
        if next != NONE {
            replicas[next].newer = id;
        }
    }

    /// Takes a follower out.
    pub(crate) fn unfollow(&mut self, replicas: &mut Slab<Replica>, id: u32, followers: &mut u32) {
        let Replica { newer, older, .. } = replicas[id];
        debug_assert!(replicas[id].follows(), "{id} follows");
        if newer == NONE {
            debug_assert_eq!(*followers, id, "it begins its own chain");
            *followers = older;
        } else {
            replicas[newer].older = older;
        }
        if older != NONE {
            replicas[older].newer = newer;
        }
        replicas[id].set_follows(false);
        self.len -= 1;
    }

    /// Takes a leader out of its list and puts its first follower, which is returned, into its very
    /// place.
    pub(crate) fn succeed(
        &mut self,
        replicas: &mut Slab<Replica>,
        leader: u32,
        followers: &mut u32,
    ) -> u32 {
        let heir = *followers;
        debug_assert_ne!(heir, NONE, "it has a follower");
        self.unfollow(replicas, heir, followers);
        let Replica { newer, older, .. } = replicas[leader];
        let list = replicas[leader].list();
        let slot = list.slot();
        if list == ListName::Ready {
            self.ready_bytes += replicas[heir].extent().bytes;
            self.ready_bytes -= replicas[leader].extent().bytes;
        }
        let replica = &mut replicas[heir];
        (replica.newer, replica.older) = (newer, older);
        replica.set_list(list);
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

    /// Panics unless the links of every list agree in both directions and name replicas of this
    /// lane. Returns how many replicas are in the lists.
    pub(crate) fn check(&self, replicas: &Slab<Replica>, lane: TenantLane) -> usize {
        let (mut listed, mut ready_bytes) = (0, 0);
        for list in ListName::ALL {
            let slot = list.slot();
            let (mut id, mut older) = (self.oldest[slot], NONE);
            while id != NONE {
                let replica = &replicas[id];
                assert_eq!((replica.list(), replica.lane()), (list, lane));
                assert_eq!(replica.older, older, "links of {id} in {list:?}");
                assert!(!replica.follows(), "{id} is in {list:?} and follows");
                if list == ListName::Ready {
                    ready_bytes += replica.extent().bytes;
                }
                (older, id) = (id, replica.newer);
                listed += 1;
                assert!(listed <= self.len, "{list:?} forms a circle");
            }
            assert_eq!(self.newest[slot], older, "newest end of {list:?}");
            assert_eq!(self.filled >> slot & 1 == 1, older != NONE, "bit of {list:?}");
        }
        assert_eq!(self.ready_bytes, ready_bytes);
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
