//! Groups of objects that share one lease and are evicted together: a shard's part of each.
//! Invariant: a part exists while it has members, and in the lists of a segment one replica stands
//! for all of the part's.

mod ledger;
mod place;

pub use ledger::GroupLedger;
pub(crate) use ledger::{GroupState, MemberCounts};

use std::collections::BTreeMap;

use crate::keys::Keys;
use crate::list_name::ListName;
use crate::object::Object;
use crate::replicas::Replicas;
use crate::slab::{NONE, Slab};
use ledger::GroupHandle;
use place::GroupReplica;

/// The members of a group whose keys are this shard's.
#[derive(Debug)]
pub(crate) struct Group {
    name: Box<str>,
    bond: GroupHandle,
    members: u32,
    /// Of the members here.
    pub(crate) counts: MemberCounts,
    /// The complete replicas by segment.
    places: BTreeMap<u32, GroupReplica>,
    /// What holds for the whole group, as of the last look; the lists agree with it.
    pub(crate) seen: GroupState,
    /// Stamp of its last touch.
    stamp: u64,
    /// Number of the call that touched the group last; further members in that call change nothing.
    touched_by_call: u64,
}

/// Leases and recency of an object, which are its group's if it has one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectTimes {
    pub(crate) read_end_ms: u64,
    pub(crate) probe_end_ms: u64,
    pub(crate) stamp: u64,
}

#[derive(Debug)]
pub(crate) struct Groups {
    ledger: GroupLedger,
    /// This shard's number.
    shard: usize,
    by_name: BTreeMap<Box<str>, u32>,
    groups: Slab<Group>,
}

impl Groups {
    pub(crate) fn new(ledger: &GroupLedger, shard: usize) -> Self {
        Self { ledger: ledger.clone(), shard, by_name: BTreeMap::new(), groups: Slab::new() }
    }

    /// The group of that name, or `NONE`.
    pub(crate) fn find(&self, name: &str) -> u32 {
        self.by_name.get(name).copied().unwrap_or(NONE)
    }

    /// Adds a member; the group is made if there is none.
    pub(crate) fn join(&mut self, name: &str) -> u32 {
        let mut id = self.find(name);
        if id == NONE {
            let bond = self.ledger.join(name, self.shard);
            id = self.groups.insert(Group {
                name: name.into(),
                seen: bond.standing(),
                bond,
                members: 0,
                counts: MemberCounts::default(),
                places: BTreeMap::new(),
                stamp: 0,
                touched_by_call: 0,
            });
            self.by_name.insert(name.into(), id);
        }
        self.groups[id].members += 1;
        id
    }

    /// Removes a member; the group goes with its last one.
    pub(crate) fn leave(&mut self, id: u32) {
        let group = &mut self.groups[id];
        debug_assert!(group.members > 0, "a group goes with its last member");
        group.members -= 1;
        debug_assert!(group.members > 0 || group.places.is_empty());
        if group.members == 0
            && let Some(group) = self.groups.remove(id)
        {
            self.by_name.remove(&group.name);
            self.ledger.leave(&group.name, &group.bond, self.shard);
        }
    }

    pub(crate) fn name(&self, id: u32) -> Option<&str> {
        self.groups.get(id).map(|group| &*group.name)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Group> {
        self.groups.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Group> {
        self.groups.get_mut(id)
    }

    /// Panics unless names, members and what holds for whole groups agree.
    pub(crate) fn check(&self, objects: &Keys) {
        self.groups.check();
        assert_eq!(self.by_name.len(), self.groups.len());
        let mut members: BTreeMap<u32, u32> = BTreeMap::new();
        for (_, object) in objects.iter().filter(|(_, it)| it.group != NONE) {
            *members.entry(object.group).or_default() += 1;
        }
        assert_eq!(members.len(), self.groups.len(), "a group has members");
        for (id, group) in self.groups.iter() {
            assert_eq!(self.find(&group.name), id, "group {:?}", group.name);
            assert_eq!(members.get(&id), Some(&group.members));
            // With other shards at work the sum of all may change in between.
            if self.ledger.shards() == 1 && !group.bond.is_retired() {
                assert_eq!(group.bond.standing().counts, group.counts);
            }
        }
    }

    /// Makes a complete replica of a member, or of an object without a group, the newest of a list;
    /// if the group has another replica in the segment, it follows that one.
    pub(crate) fn enlist(&mut self, group: u32, replicas: &mut Replicas, id: u32, list: ListName) {
        let Some(group) = self.groups.get_mut(group) else {
            replicas.relink(id, list);
            return;
        };
        let segment = replicas[id].segment;
        match group.places.get_mut(&segment) {
            Some(place) if place.has(replicas, id) => {}
            Some(place) => place.add(replicas, id),
            None => {
                replicas.relink(id, list);
                group.places.insert(segment, GroupReplica::new(replicas, id));
            }
        }
    }

    /// Takes a replica out of the lists of its segment.
    pub(crate) fn unlist(&mut self, group: u32, replicas: &mut Replicas, id: u32) {
        let places = self.groups.get_mut(group).map(|group| &mut group.places);
        let segment = replicas[id].segment;
        if let Some(places) = places
            && let Some(place) = places.get_mut(&segment)
            && place.has(replicas, id)
        {
            if place.remove(replicas, id) {
                places.remove(&segment);
            }
        } else {
            replicas.unlink(id);
        }
    }

    /// Makes a group the newest of a list, in all of its segments.
    pub(crate) fn relink(
        &mut self,
        group: u32,
        replicas: &mut Replicas,
        list: ListName,
        stamp: u64,
    ) {
        if let Some(group) = self.groups.get_mut(group) {
            group.stamp = stamp;
            for place in group.places.values() {
                place.relink(replicas, list);
            }
        }
    }

    /// Leases and recency of an object.
    pub(crate) fn touched(&self, object: &Object) -> ObjectTimes {
        match self.groups.get(object.group) {
            Some(group) => ObjectTimes {
                read_end_ms: group.seen.read_end_ms,
                probe_end_ms: group.seen.probe_end_ms,
                stamp: group.stamp,
            },
            None => ObjectTimes {
                read_end_ms: object.read_end_ms,
                probe_end_ms: object.probe_end_ms,
                stamp: object.stamp,
            },
        }
    }

    /// End of the later of an object's two leases, whichever shard granted it.
    pub(crate) fn lease_end_ms(&self, object: &Object) -> u64 {
        match self.groups.get(object.group) {
            Some(group) => {
                let standing = group.bond.standing();
                standing.read_end_ms.max(standing.probe_end_ms)
            }
            None => object.read_end_ms.max(object.probe_end_ms),
        }
    }

    /// Whether a member on another shard keeps a group.
    pub(crate) fn is_held_elsewhere(&self, group: u32) -> bool {
        let group = self.get(group);
        group.is_some_and(|group| group.is_held_elsewhere())
    }

    /// Decides that a group goes, unless a lease runs or a member cannot go, on whichever shard.
    /// The other shards drop their parts before they do anything else.
    pub(crate) fn retire(&self, id: u32, now_ms: u64) -> bool {
        let Some(group) = self.groups.get(id) else {
            return false;
        };
        self.ledger.retire(&group.name, &group.bond, self.shard, now_ms)
    }

    /// Parts of groups that other shards have decided to evict.
    pub(crate) fn take_retired(&self) -> Vec<u32> {
        let names = self.ledger.take_post(self.shard);
        let ids = names.iter().map(|name| self.find(name));
        ids.filter(|id| self.is_retired(*id)).collect()
    }

    fn is_retired(&self, id: u32) -> bool {
        self.get(id).is_some_and(|group| group.bond.is_retired())
    }

    /// Members that joined while the group was being evicted form a group of their own.
    pub(crate) fn found_again(&mut self, id: u32) {
        if !self.is_retired(id) {
            return;
        }
        let group = &mut self.groups[id];
        let (counts, seen) = (group.counts, group.seen);
        group.bond = self.ledger.join(&group.name, self.shard);
        group.update(|whole| {
            whole.counts.blockers += counts.blockers;
            whole.counts.soft_pinned += counts.soft_pinned;
            whole.read_end_ms = whole.read_end_ms.max(seen.read_end_ms);
            whole.probe_end_ms = whole.probe_end_ms.max(seen.probe_end_ms);
            whole.hit |= seen.hit;
            whole.readers = whole.readers.saturating_add(seen.readers);
        });
    }
}

impl Group {
    /// Changes what holds for the whole group.
    pub(crate) fn update(&mut self, change: impl FnOnce(&mut GroupState)) {
        self.seen = self.bond.update(change);
    }

    /// Changes how many members keep the group, here and on all shards.
    pub(crate) fn count(&mut self, change: impl FnOnce(&mut MemberCounts, &mut MemberCounts)) {
        let counts = &mut self.counts;
        self.seen = self.bond.update(|whole| change(counts, &mut whole.counts));
    }

    /// Notes the call that touches it; whether it is the first touch by that call.
    pub(crate) fn note_call(&mut self, call: u64) -> bool {
        std::mem::replace(&mut self.touched_by_call, call) != call
    }

    /// All replicas here.
    pub(crate) fn replicas(&self, replicas: &Replicas) -> Vec<u32> {
        self.places.values().flat_map(|place| place.all(replicas)).collect()
    }

    /// Bytes of its replicas in a segment.
    pub(crate) fn bytes_in(&self, segment: u32) -> u64 {
        self.places.get(&segment).map_or(0, GroupReplica::bytes)
    }

    /// Panics unless its replicas in each segment follow one of them and their bytes are counted.
    pub(crate) fn check_places(&self, replicas: &Replicas) {
        for (segment, place) in &self.places {
            let ids: Vec<u32> = place.all(replicas).collect();
            let bytes = ids.iter().map(|id| replicas[*id].extent().bytes);
            assert_eq!(place.bytes(), bytes.sum::<u64>());
            assert!(ids.iter().all(|id| replicas[*id].segment == *segment));
            let followers = ids.iter().filter(|id| replicas[**id].follows());
            assert_eq!(followers.count(), ids.len() - 1, "one stands for all");
        }
    }

    /// Whether something has changed on another shard since the last look.
    pub(crate) fn is_outdated(&self) -> bool {
        self.bond.standing() != self.seen
    }

    /// Whether no lease runs and every member can go, on whichever shard.
    pub(crate) fn may_go(&self, now_ms: u64) -> bool {
        self.bond.standing().may_go(now_ms)
    }

    /// Whether a member on another shard keeps the group.
    pub(crate) fn is_held_elsewhere(&self) -> bool {
        self.seen.counts.blockers > self.counts.blockers
    }
}
