//! What an object's state means for its group: blocking eviction, soft pins, shared leases.
//! Invariant: a group's counts agree with its members' flags, and all members have the group's leases.

use crate::object::Flags;
use crate::recency::{Class, ListName, Phase};
use crate::slab::NONE;

use super::Shard;

impl Shard {
    /// Sets or clears an object's soft pin.
    pub(super) fn set_soft_pin(&mut self, object: u32, end_ms: Option<u64>) {
        let record = &mut self.objects[object];
        let had = record.flags.has(Flags::SOFT_PIN);
        record.flags.set(Flags::SOFT_PIN, end_ms.is_some());
        let group = record.group;
        match end_ms {
            Some(end_ms) => self.soft_pins.pin(object, end_ms),
            None => self.soft_pins.unpin(object),
        }
        if had == end_ms.is_some() {
            return;
        }
        if let Some(group) = self.groups.get_mut(group) {
            let before = group.soft_pinned;
            group.soft_pinned = if had { before - 1 } else { before + 1 };
            if (before == 0) != (group.soft_pinned == 0) {
                self.relink_members(object);
            }
        }
    }

    /// An object blocks its group while it is hard-pinned or has nothing that could be evicted.
    pub(super) fn refresh_blocking(&mut self, object: u32) {
        let record = &self.objects[object];
        let blocks = record.flags.has(Flags::HARD_PIN) || record.first == NONE;
        self.set_blocking(object, blocks);
    }

    pub(super) fn set_blocking(&mut self, object: u32, blocks: bool) {
        let record = &mut self.objects[object];
        if record.flags.has(Flags::BLOCKS_GROUP) == blocks {
            return;
        }
        record.flags.set(Flags::BLOCKS_GROUP, blocks);
        let Some(group) = self.groups.get_mut(record.group) else {
            return;
        };
        let blockers = group.blockers;
        group.blockers = if blocks { blockers + 1 } else { blockers - 1 };
        if (blockers == 0) != (group.blockers == 0) {
            self.relink_members(object);
        }
    }

    /// Puts all members of an object's group into the lists where they belong now, as the newest there.
    pub(super) fn relink_members(&mut self, object: u32) {
        self.for_each_member(object, |shard, member| {
            shard.objects[member].stamp = shard.clock;
            let list = shard.list_of(member);
            shard.relink(member, list);
        });
    }

    /// Calls `act` for every member of the object's group, or for the object alone if it has none.
    pub(super) fn for_each_member(&mut self, object: u32, mut act: impl FnMut(&mut Self, u32)) {
        let group = self.objects[object].group;
        let Some(group_record) = self.groups.get_mut(group) else {
            act(self, object);
            return;
        };
        let members = std::mem::take(&mut group_record.members);
        for member in &members {
            act(self, *member);
        }
        if let Some(group) = self.groups.get_mut(group) {
            group.members = members;
        }
    }

    /// The list where an object's complete replicas belong.
    pub(super) fn list_of(&self, object: u32) -> ListName {
        let record = &self.objects[object];
        let group = self.groups.get(record.group);
        if record.flags.has(Flags::HARD_PIN) || group.is_some_and(|group| group.blockers > 0) {
            return ListName::Held;
        }
        let pinned =
            record.flags.has(Flags::SOFT_PIN) || group.is_some_and(|group| group.soft_pinned > 0);
        let class = match (pinned, record.flags.has(Flags::HIT)) {
            (true, _) => Class::Pinned,
            (false, true) => Class::Hot,
            (false, false) => Class::Cold,
        };
        let phase = if record.read_end_ms > self.now_ms {
            Phase::Read
        } else if record.probe_end_ms > self.now_ms {
            Phase::Probed
        } else {
            Phase::Free
        };
        ListName::Evictable(class, phase)
    }

    /// Makes an object's complete replicas the newest of a list in their segments.
    pub(super) fn relink(&mut self, object: u32, list: ListName) {
        let mut id = self.objects[object].first;
        while id != NONE {
            let (segment, sibling) = (self.replicas[id].segment, self.replicas[id].sibling);
            if let Some(share) = self.shares[segment as usize].as_deref_mut() {
                share.recency.relink(&mut self.replicas, id, list);
            }
            id = sibling;
        }
    }
}
