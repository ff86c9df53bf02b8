//! What an object's state means for its group, and where objects and groups stand in the lists of
//! their segments.
//! Invariant: a group's counts agree with its members' flags, and what was seen of the whole group
//! with its list.

use crate::group::MemberCounts;
use crate::list_name::{Class, LeasePhase, ListName};
use crate::object::Flags;
use crate::policy::ObjectKind;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
    /// Sets or clears an object's soft pin.
    pub(super) fn set_soft_pin(&mut self, object: u32, end_ms: Option<u64>) {
        match end_ms {
            Some(end_ms) => self.soft_pins.pin(object, end_ms),
            None => self.soft_pins.unpin(object),
        }
        let had = self.keys[object].flags.has(Flags::SOFT_PIN);
        self.set_soft_flag(object, Flags::SOFT_PIN, end_ms.is_some());
        if had != end_ms.is_some() {
            self.note_flags(object);
        }
    }

    /// Sets or clears one of the flags that let an object go last.
    pub(super) fn set_soft_flag(&mut self, object: u32, flag: u8, on: bool) {
        debug_assert_ne!(flag & Flags::SOFT_PINNED, 0);
        let record = &mut self.keys[object];
        let had = record.flags.has(Flags::SOFT_PINNED);
        record.flags.set(flag, on);
        let group = record.group;
        if had == record.flags.has(Flags::SOFT_PINNED) {
            return;
        }
        self.change_group(group, |local, whole| {
            for count in [&mut local.soft_pinned, &mut whole.soft_pinned] {
                *count = if had { *count - 1 } else { *count + 1 };
            }
        });
    }

    /// An object blocks its group while it is hard-pinned, being copied to a disk, or has nothing
    /// that could be evicted.
    pub(super) fn refresh_blocking(&mut self, object: u32) {
        let record = &self.keys[object];
        let blocks = record.flags.has(Flags::HELD) || record.first == NONE;
        self.set_blocking(object, blocks);
    }

    pub(super) fn set_blocking(&mut self, object: u32, blocks: bool) {
        let record = &mut self.keys[object];
        if record.flags.has(Flags::BLOCKS_GROUP) == blocks {
            return;
        }
        record.flags.set(Flags::BLOCKS_GROUP, blocks);
        let group = record.group;
        self.change_group(group, |local, whole| {
            for count in [&mut local.blockers, &mut whole.blockers] {
                *count = if blocks { *count + 1 } else { *count - 1 };
            }
        });
    }

    /// Changes the counts of a group, here and for all shards; if the group belongs into another
    /// list then, it becomes the newest there.
    fn change_group(
        &mut self,
        group: u32,
        change: impl FnOnce(&mut MemberCounts, &mut MemberCounts),
    ) {
        let before = self.list_of_group(group);
        let Some(part) = self.groups.get_mut(group) else {
            return;
        };
        part.count(change);
        if self.list_of_group(group) != before {
            self.relink_group(group);
        }
    }

    /// The list where an object's complete replicas in memory belong.
    pub(super) fn list_of(&self, object: u32) -> ListName {
        let record = &self.keys[object];
        if let Some(list) = self.list_of_group(record.group) {
            return list;
        }
        if record.flags.has(Flags::HELD) {
            return ListName::Held;
        }
        let class = Class::of(record.flags.has(Flags::SOFT_PINNED), record.kind());
        ListName::Evictable(class, self.phase(record.read_end_ms, record.probe_end_ms))
    }

    /// The list where a group belongs, if there is one. Holds of members on other shards are not
    /// tracked here, because their end is not announced: they are checked when the group's turn
    /// comes.
    fn list_of_group(&self, group: u32) -> Option<ListName> {
        let group = self.groups.get(group)?;
        if group.counts.blockers > 0 {
            return Some(ListName::Held);
        }
        let seen = &group.seen;
        let kind = if seen.hit { ObjectKind::READ } else { ObjectKind::GROUPED };
        let class = Class::of(seen.counts.soft_pinned > 0, kind);
        let phase = self.phase(seen.read_end_ms, seen.probe_end_ms);
        Some(ListName::Evictable(class, phase))
    }

    fn phase(&self, read_end_ms: u64, probe_end_ms: u64) -> LeasePhase {
        if read_end_ms > self.now_ms {
            LeasePhase::Read
        } else if probe_end_ms > self.now_ms {
            LeasePhase::Probed
        } else {
            LeasePhase::Free
        }
    }

    /// Makes an object's complete replicas the newest of a list in their segments, and with them
    /// those of its group.
    pub(super) fn relink(&mut self, object: u32, list: ListName) {
        let mut id = self.keys[object].first;
        while id != NONE {
            self.enlist(id, list);
            id = self.replicas[id].sibling;
        }
        self.relink_group(self.keys[object].group);
    }

    /// Makes a group the newest of the list where it belongs, in all of its segments.
    pub(super) fn relink_group(&mut self, group: u32) {
        if let Some(list) = self.list_of_group(group) {
            self.groups.relink(group, &mut self.replicas, list, self.clock.last());
        }
    }

    /// Makes one complete replica the newest of a list, or a follower of its group's. One on a disk
    /// stays where it is, and one that was made for heat among those.
    pub(super) fn enlist(&mut self, id: u32, list: ListName) {
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
}
