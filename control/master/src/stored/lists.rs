//! Where the replicas of an object, and those of its group, stand in the lists of their segments.
//! Invariant: a group's list follows from what was seen of the whole group; what is held, on a disk
//! or made for heat is in a list of its own.

use crate::list_name::{Class, LeasePhase, ListName};
use crate::object::Flags;
use crate::policy::ObjectKind;
use crate::slab::NONE;

use super::StoredObjects;

impl StoredObjects {
    /// The list where an object's complete replicas in memory belong.
    pub(crate) fn list_of(&self, object: u32) -> ListName {
        let record = &self.keys[object];
        if let Some(list) = self.list_of_group(record.group) {
            return list;
        }
        if record.flags.has(Flags::HELD) {
            return ListName::Held;
        }
        let class = Class::of(record.flags.has(Flags::SOFT_PINNED), record.kind());
        ListName::Evictable(
            class,
            LeasePhase::at(self.clock.now_ms(), record.read_end_ms, record.probe_end_ms),
        )
    }

    /// The list where a group belongs, if there is one. Holds of members on other shards are not
    /// tracked here, because their end is not announced: they are checked when the group's turn
    /// comes.
    pub(super) fn list_of_group(&self, group: u32) -> Option<ListName> {
        let group = self.groups.get(group)?;
        if group.counts.blockers > 0 {
            return Some(ListName::Held);
        }
        let seen = &group.seen;
        let kind = if seen.hit { ObjectKind::READ } else { ObjectKind::GROUPED };
        let class = Class::of(seen.counts.soft_pinned > 0, kind);
        let phase = LeasePhase::at(self.clock.now_ms(), seen.read_end_ms, seen.probe_end_ms);
        Some(ListName::Evictable(class, phase))
    }

    /// Makes one complete replica the newest of a list, or a follower of its group's. One on a disk
    /// stays where it is, and one that was made for heat among those.
    pub(crate) fn enlist(&mut self, id: u32, list: ListName) {
        let replica = &self.replicas[id];
        if replica.is_on_disk() || replica.is_extra() {
            return self.stay_listed(id);
        }
        let group = self.keys[self.replicas[id].object].group;
        self.groups.enlist(group, &mut self.replicas, id, list);
    }

    /// One on a disk keeps its place, and one that was made for heat becomes the newest of those.
    #[cold]
    fn stay_listed(&mut self, id: u32) {
        if self.replicas[id].is_extra() {
            self.replicas.relink(id, ListName::Extra);
        }
    }

    /// Takes a replica out of the lists of its segment.
    pub(super) fn unlist(&mut self, id: u32) {
        let group = self.keys.get(self.replicas[id].object).map_or(NONE, |it| it.group);
        self.groups.unlist(group, &mut self.replicas, id);
    }

    /// Makes an object's complete replicas the newest of a list in their segments, and with them
    /// those of its group.
    pub(crate) fn relink(&mut self, object: u32, list: ListName) {
        let mut id = self.keys[object].first;
        while id != NONE {
            self.enlist(id, list);
            id = self.replicas[id].sibling;
        }
        self.relink_group(self.keys[object].group);
    }

    /// Makes a group the newest of the list where it belongs, in all of its segments.
    pub(crate) fn relink_group(&mut self, group: u32) {
        if let Some(list) = self.list_of_group(group) {
            self.groups.relink(group, &mut self.replicas, list, self.clock.last());
        }
    }

    /// As `relink`, for those replicas that are not ready to go: the others would be next in the
    /// order of eviction once more, and each would take the place of the other for ever.
    fn relink_unready(&mut self, object: u32, list: ListName) {
        let all = self.replicas.chain(self.keys[object].first);
        let unready: Vec<u32> =
            all.filter(|id| self.replicas[*id].list() != ListName::Ready).collect();
        unready.into_iter().for_each(|id| self.enlist(id, list));
        self.relink_group(self.keys[object].group);
    }

    /// Puts an evictable replica, all parts of its object, or its group where it goes before
    /// others.
    pub(crate) fn make_ready(&mut self, id: u32) {
        let object = self.replicas[id].object;
        let stamp = self.groups.touched(&self.keys[object]).stamp;
        let list = self.list_of(object);
        if list == ListName::Held {
            // Those in segments that are gone, too.
            return self.relink(object, list);
        }
        self.relink_unready(object, list);
        let record = &self.keys[object];
        match record.group {
            // Parts go together.
            NONE if self.replicas[id].part().is_some() => {
                let parts: Vec<u32> = self.replicas.chain(record.first).collect();
                parts.into_iter().for_each(|id| self.replicas.relink(id, ListName::Ready));
            }
            NONE => self.replicas.relink(id, ListName::Ready),
            group => self.groups.relink(group, &mut self.replicas, ListName::Ready, stamp),
        }
    }

    /// The replicas that go together with one: its group's on this shard, or it alone.
    pub(crate) fn going_with(&self, id: u32) -> Vec<u32> {
        match self.groups.get(self.keys[self.replicas[id].object].group) {
            Some(group) => group.replicas(&self.replicas),
            None => vec![id],
        }
    }
    /// Bytes that go with a replica: its own, or all of its group's in the segment unless a shard
    /// keeps the group.
    pub(crate) fn bytes_behind(&self, id: u32) -> u64 {
        let replica = &self.replicas[id];
        let group = self.groups.get(self.keys[replica.object].group);
        let Some(group) = group.filter(|_| !replica.is_extra()) else {
            return replica.extent().bytes;
        };
        match group.may_go(self.clock.now_ms()) {
            true => group.bytes_in(replica.segment),
            false => 0,
        }
    }
}
