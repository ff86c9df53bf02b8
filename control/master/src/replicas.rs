//! The replicas of a shard: their chains, one per version of an object, and their lists, one order
//! of eviction per segment.
//! Invariant: a replica is in one list of its segment, or follows one of its group that is, from
//! the moment it is made until it is removed; and it is in at most one chain.

use std::collections::BTreeSet;

use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;
use perigee_schemas::limits::PARTS_MAX;

use crate::generations::Generations;
use crate::key_event::Media;
use crate::list_name::ListName;
use crate::recency::Recency;
use crate::replica::Replica;
use crate::segment_lists::SegmentLists;
use crate::slab::{NONE, Slab};
use crate::tenant::{SHARED, TenantLane, TenantNumber};

#[derive(Debug)]
pub(crate) struct Replicas {
    records: Slab<Replica>,
    /// By segment number; `None` for segments that are not known or forgotten.
    lists: Vec<Option<Box<SegmentLists>>>,
    /// Copies on disks that were linked later than others behind them in the log: disk, address and
    /// number of each.
    late: BTreeSet<(u32, u64, u32)>,
    generations: Generations,
}

impl Replicas {
    pub(crate) fn new(generations: Generations) -> Self {
        Self { records: Slab::new(), lists: Vec::new(), late: BTreeSet::new(), generations }
    }

    /// A segment may have replicas from now on.
    pub(crate) fn open(&mut self, segment: u32) {
        let slot = segment as usize;
        if self.lists.len() <= slot {
            self.lists.resize_with(slot + 1, || None);
        }
        debug_assert!(self.lists[slot].is_none(), "a number is used once");
        self.lists[slot] = Some(Box::default());
    }

    /// A segment has no replicas any more and gets no other ones.
    pub(crate) fn close(&mut self, segment: u32) {
        debug_assert_eq!(self.count_in(segment), 0, "its replicas are forgotten first");
        if let Some(lists) = self.lists.get_mut(segment as usize) {
            *lists = None;
        }
    }

    /// A new replica that is held, has a generation of its own, and has no object yet.
    pub(crate) fn make(&mut self, lane: TenantLane, extent: Extent, payload_bytes: u64) -> u32 {
        let generation = self.generations.next();
        self.adopt(lane, extent.offset, payload_bytes, generation)
    }

    /// Makes replicas for some extents, which hold so many bytes of a tenant, or of a part of an
    /// object, and puts them before a chain; returns the start.
    pub(crate) fn chain_up(
        &mut self,
        extents: &[(u32, Extent)],
        (tenant, payload_bytes): (TenantNumber, u64),
        part: Option<u8>,
        mut first: u32,
    ) -> u32 {
        for (at, (segment, extent)) in extents.iter().enumerate().rev() {
            let others = || extents[..at].iter().map(|(other, _)| other);
            debug_assert!(others().all(|other| other != segment), "one per segment");
            debug_assert_eq!(extent.bytes, extent_bytes(payload_bytes));
            let id = self.make(TenantLane { segment: *segment, tenant }, *extent, payload_bytes);
            self.set_part(id, part);
            self.put_before(id, first);
            first = id;
        }
        first
    }

    /// All generations that were given are smaller.
    pub(crate) fn generation_bound(&self) -> u64 {
        self.generations.bound()
    }

    /// All generations that are given from now on are at least this one.
    pub(crate) fn raise_generations(&mut self, bound: u64) {
        self.generations.raise(bound);
    }

    /// As `make`, with the generation that another master gave it.
    pub(crate) fn adopt(
        &mut self,
        lane: TenantLane,
        offset: u64,
        payload_bytes: u64,
        generation: u64,
    ) -> u32 {
        debug_assert!(payload_bytes > 0, "a replica has bytes");
        let id = self.records.insert(Replica::new(lane, offset, payload_bytes, generation));
        let lists = self.lists.get_mut(lane.segment as usize).and_then(Option::as_deref_mut);
        debug_assert!(lists.is_some(), "its segment is known");
        if let Some(lists) = lists {
            lists.open(lane.tenant).link(&mut self.records, id, ListName::Held);
        }
        id
    }

    /// Forgets a replica that is in no list and no chain any more.
    pub(crate) fn remove(&mut self, id: u32) -> Option<Replica> {
        debug_assert!(!self.records[id].follows(), "it is in no list any more");
        self.records.remove(id)
    }

    /// Notes that a replica begins a prefix.
    pub(crate) fn set_head(&mut self, id: u32) {
        self.records[id].set_head();
    }

    /// Notes which part of its object a replica holds.
    pub(crate) fn set_part(&mut self, id: u32, part: Option<u8>) {
        self.records[id].set_part(part);
    }

    /// The replicas of a chain.
    pub(crate) fn chain(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(some(first), move |id| some(self.records[*id].sibling))
    }

    /// What the replicas of a chain lie on.
    pub(crate) fn media(&self, first: u32) -> Media {
        self.chain(first).map(|id| self[id].medium()).collect()
    }

    /// Whether some replicas hold all of so many parts.
    pub(crate) fn are_all_parts(&self, ids: impl Iterator<Item = u32>, parts: u8) -> bool {
        debug_assert!((1..=PARTS_MAX).contains(&parts), "a bit for each");
        let missing = u64::MAX >> (u64::BITS - u32::from(parts));
        let bit = |id: u32| self[id].part().map_or(0, |part| 1 << part);
        ids.fold(missing, |missing, id| missing & !bit(id)) == 0
    }

    /// Takes a replica out of the chain that starts at `first`; returns the new start.
    pub(crate) fn unchain(&mut self, first: u32, id: u32) -> u32 {
        let after = self.records[id].sibling;
        if first == id {
            return after;
        }
        let before = self.chain(first).find(|other| self.records[*other].sibling == id);
        debug_assert!(before.is_some(), "{id} is in the chain of {first}");
        if let Some(before) = before {
            self.records[before].sibling = after;
        }
        first
    }

    /// Makes a replica the start of the chain that started at `first`.
    pub(crate) fn put_before(&mut self, id: u32, first: u32) {
        self.records[id].sibling = first;
    }

    /// Puts a replica into the chain of another one, behind it.
    pub(crate) fn put_behind(&mut self, id: u32, other: u32) {
        self.records[id].sibling = self.records[other].sibling;
        self.records[other].sibling = id;
    }

    /// Makes a replica the end of the chain that starts at `first`; returns the new start.
    pub(crate) fn put_last(&mut self, id: u32, first: u32) -> u32 {
        let last = self.chain(first).last();
        match last {
            Some(last) => {
                self.put_behind(id, last);
                first
            }
            None => id,
        }
    }

    /// Gives the replicas of a chain, which have none yet, to an object.
    pub(crate) fn assign(&mut self, first: u32, object: u32) {
        let mut id = first;
        while id != NONE {
            let replica = &mut self.records[id];
            debug_assert_eq!(replica.object, NONE, "it has no object yet");
            replica.object = object;
            id = replica.sibling;
        }
    }

    /// Makes a replica that is in a list the newest of one.
    pub(crate) fn relink(&mut self, id: u32, list: ListName) {
        if let Some(lists) = lists_of(&mut self.lists, self.records[id].lane()) {
            lists.relink(&mut self.records, id, list);
        }
    }

    /// A copy on a disk was linked later than others behind it in the log.
    pub(crate) fn note_late(&mut self, id: u32) {
        let replica = &self.records[id];
        debug_assert!(replica.is_on_disk(), "memory has no log");
        self.late.insert((replica.segment, replica.offset, id));
    }

    /// Of such copies the one that comes first in the log of a disk, or `NONE`.
    pub(crate) fn oldest_late(&self, disk: u32) -> u32 {
        let oldest = self.late.range((disk, 0, 0)..=(disk, u64::MAX, NONE)).next();
        oldest.map_or(NONE, |(_, _, id)| *id)
    }

    /// Takes a replica out of its list, for good.
    pub(crate) fn unlink(&mut self, id: u32) {
        if !self.late.is_empty() && self.records[id].is_on_disk() {
            let replica = &self.records[id];
            self.late.remove(&(replica.segment, replica.offset, id));
        }
        if let Some(lists) = lists_of(&mut self.lists, self.records[id].lane()) {
            lists.unlink(&mut self.records, id);
        }
        self.close_empty(self.records[id].lane());
    }

    /// Takes a replica out of its list: from now on it goes where the leader of these followers
    /// goes.
    pub(crate) fn follow(&mut self, id: u32, followers: &mut u32) {
        if let Some(lists) = lists_of(&mut self.lists, self.records[id].lane()) {
            lists.follow(&mut self.records, id, followers);
        }
    }

    /// Takes a follower out, for good.
    pub(crate) fn unfollow(&mut self, id: u32, followers: &mut u32) {
        if let Some(lists) = lists_of(&mut self.lists, self.records[id].lane()) {
            lists.unfollow(&mut self.records, id, followers);
        }
        self.close_empty(self.records[id].lane());
    }

    /// Takes a leader out, for good, and puts its first follower, which is returned, into its very
    /// place.
    pub(crate) fn succeed(&mut self, leader: u32, followers: &mut u32) -> u32 {
        match lists_of(&mut self.lists, self.records[leader].lane()) {
            Some(lists) => lists.succeed(&mut self.records, leader, followers),
            None => leader,
        }
    }

    /// The lists of a lane, if it has any.
    pub(crate) fn lists(&self, lane: TenantLane) -> Option<&Recency> {
        self.lists_in(lane.segment)?.of(lane.tenant)
    }

    /// The replica of a list that was linked first, or `NONE`.
    pub(crate) fn oldest(&self, lane: TenantLane, list: ListName) -> u32 {
        self.lists(lane).map_or(NONE, |lists| lists.oldest(list))
    }

    /// The tenants with replicas in a segment, where they have quotas.
    pub(crate) fn tenants_in(&self, segment: u32) -> impl Iterator<Item = TenantNumber> + '_ {
        self.lists_in(segment).into_iter().flat_map(SegmentLists::tenants)
    }

    /// Whether a tenant has replicas in a segment.
    pub(crate) fn has_some(&self, lane: TenantLane) -> bool {
        self.lists(lane).is_some()
    }

    /// Bytes of the replicas of a segment that are ready to go, without those that follow them.
    pub(crate) fn ready_bytes(&self, segment: u32) -> u64 {
        self.lists_in(segment).map_or(0, SegmentLists::ready_bytes)
    }

    /// Bytes of a tenant's replicas in some segments that are ready to go, without those that
    /// follow them.
    pub(crate) fn ready_bytes_of(&self, tenant: TenantNumber, segments: &[u32]) -> u64 {
        let lists = segments.iter().filter_map(|segment| self.lists_in(*segment)?.of(tenant));
        lists.map(Recency::ready_bytes).sum()
    }

    /// Any replica of a segment.
    pub(crate) fn any_in(&self, segment: u32) -> Option<u32> {
        let any = self.lists_in(segment)?.any();
        (any != NONE).then_some(any)
    }

    /// Number of replicas in a segment.
    pub(crate) fn count_in(&self, segment: u32) -> usize {
        self.lists_in(segment).map_or(0, SegmentLists::len)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Replica> {
        self.records.get(id)
    }

    /// Number of replicas.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// One past the highest number of a replica there ever was, for walks.
    pub(crate) fn bound(&self) -> u32 {
        self.records.bound()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Replica)> + Clone {
        self.records.iter()
    }

    /// Reads the list neighbours of a replica, so that they are at hand when it is relinked.
    /// Returns what it read.
    pub(crate) fn load_neighbours(&self, id: u32) -> u32 {
        let object = |id: u32| self.records.get(id).map_or(NONE, |replica| replica.object);
        self.records.get(id).map_or(0, |replica| object(replica.newer) ^ object(replica.older))
    }

    /// Panics unless each replica is in one list of its segment or follows, and all are counted.
    pub(crate) fn check(&self) {
        self.records.check();
        for (disk, address, id) in &self.late {
            let late = &self.records[*id];
            assert_eq!((late.segment, late.offset, late.is_on_disk()), (*disk, *address, true));
        }
        let mut counted = 0;
        for (segment, lists) in (0..).zip(&self.lists) {
            let Some(lists) = lists else {
                continue;
            };
            let here = self.records.iter().filter(|(_, it)| it.segment == segment);
            let (all, followers) = here.fold((0, 0), |(all, followers), (_, replica)| {
                (all + 1, followers + usize::from(replica.follows()))
            });
            assert_eq!(lists.len(), all, "all replicas of {segment} count");
            let listed = lists.check(&self.records, segment);
            assert_eq!(listed + followers, all, "each is listed or follows");
            counted += all;
        }
        assert_eq!(counted, self.records.len(), "no replica is without its segment");
    }

    fn lists_in(&self, segment: u32) -> Option<&SegmentLists> {
        self.lists.get(segment as usize)?.as_deref()
    }

    /// Forgets the lists of a tenant that has nothing in a segment any more.
    fn close_empty(&mut self, lane: TenantLane) {
        if lane.tenant != SHARED
            && let Some(Some(lists)) = self.lists.get_mut(lane.segment as usize)
        {
            lists.close_empty(lane.tenant);
        }
    }
}

fn lists_of(lists: &mut [Option<Box<SegmentLists>>], lane: TenantLane) -> Option<&mut Recency> {
    lists.get_mut(lane.segment as usize)?.as_deref_mut()?.of_mut(lane.tenant)
}

impl std::ops::Index<u32> for Replicas {
    type Output = Replica;

    fn index(&self, id: u32) -> &Replica {
        &self.records[id]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list_name::{Class, LeasePhase};
    use crate::policy::ObjectKind;
    use crate::settings::ShardSettings;

    const FREE: ListName = ListName::Evictable(Class::Plain(ObjectKind::at(0)), LeasePhase::Free);

    fn in_segments(segments: u32) -> Replicas {
        let mut replicas = Replicas::new(Generations::new(&ShardSettings::default()));
        (0..segments).for_each(|segment| replicas.open(segment));
        replicas
    }

    fn make(replicas: &mut Replicas, segment: u32) -> u32 {
        let id = replicas.make(TenantLane::shared(segment), Extent::new(0, 64), 1);
        replicas.check();
        id
    }

    #[test]
    fn a_replica_leaves_its_chain_wherever_it_stands() {
        for at in 0..3 {
            let mut replicas = in_segments(3);
            let mut first = NONE;
            for segment in 0..3 {
                let id = make(&mut replicas, segment);
                replicas.put_before(id, first);
                first = id;
            }
            let leaving = replicas.chain(first).nth(at).unwrap();
            let first = replicas.unchain(first, leaving);
            let left: Vec<u32> = replicas.chain(first).collect();
            assert_eq!(left.len(), 2);
            assert!(!left.contains(&leaving));
            replicas.put_behind(leaving, left[0]);
            assert!(replicas.chain(first).eq([left[0], leaving, left[1]]));
        }
        let mut replicas = in_segments(1);
        let only = make(&mut replicas, 0);
        assert_eq!(replicas.unchain(only, only), NONE);
    }

    #[test]
    fn the_oldest_of_a_segment_is_the_one_linked_first() {
        let mut replicas = in_segments(2);
        let ids: Vec<u32> = (0..6).map(|n| make(&mut replicas, n % 2)).collect();
        ids.iter().for_each(|id| replicas.relink(*id, FREE));
        assert_eq!(
            (
                replicas.oldest(TenantLane::shared(0), FREE),
                replicas.oldest(TenantLane::shared(1), FREE)
            ),
            (ids[0], ids[1])
        );
        replicas.relink(ids[0], FREE);
        replicas.check();
        assert_eq!(
            (
                replicas.oldest(TenantLane::shared(0), FREE),
                replicas.oldest(TenantLane::shared(0), ListName::Held)
            ),
            (ids[2], NONE)
        );
        assert_eq!((replicas.count_in(0), replicas.count_in(7), replicas.any_in(7)), (3, 0, None));
    }

    #[test]
    fn a_follower_takes_the_place_of_its_leader() {
        let mut replicas = in_segments(1);
        let ids: Vec<u32> = (0..3).map(|_| make(&mut replicas, 0)).collect();
        ids.iter().for_each(|id| replicas.relink(*id, FREE));
        let mut followers = NONE;
        replicas.follow(ids[2], &mut followers);
        replicas.check();
        let heir = replicas.succeed(ids[0], &mut followers);
        assert_eq!(
            (heir, followers, replicas.oldest(TenantLane::shared(0), FREE)),
            (ids[2], NONE, ids[2])
        );
        replicas.remove(ids[0]);
        replicas.check();
    }

    #[test]
    fn generations_are_never_given_twice() {
        let mut replicas = in_segments(1);
        let (first, second) = (make(&mut replicas, 0), make(&mut replicas, 0));
        assert_ne!(replicas[first].generation, replicas[second].generation);
        let of_first = replicas[first].generation;
        replicas.unlink(first);
        replicas.remove(first);
        let reused = make(&mut replicas, 0);
        assert_eq!(reused, first, "its number is used again");
        assert_ne!(replicas[reused].generation, of_first);
    }
}
