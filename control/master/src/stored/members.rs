//! What an object's state means for its group.
//! Invariant: a group's counts agree with its members' flags.

use crate::group::MemberCounts;
use crate::object::Flags;
use crate::slab::NONE;

use super::StoredObjects;

impl StoredObjects {
    /// Sets or clears an object's soft pin; whether that is a change.
    pub(crate) fn set_soft_pin(&mut self, object: u32, end_ms: Option<u64>) -> bool {
        match end_ms {
            Some(end_ms) => self.soft_pins.pin(object, end_ms),
            None => self.soft_pins.unpin(object),
        }
        let had = self.keys[object].flags.has(Flags::SOFT_PIN);
        self.set_soft_flag(object, Flags::SOFT_PIN, end_ms.is_some());
        had != end_ms.is_some()
    }

    /// Sets or clears one of the flags that let an object go last.
    pub(crate) fn set_soft_flag(&mut self, object: u32, flag: u8, on: bool) {
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
    pub(crate) fn refresh_blocking(&mut self, object: u32) {
        let record = &self.keys[object];
        let blocks = record.flags.has(Flags::HELD) || record.first == NONE;
        self.set_blocking(object, blocks);
    }

    pub(crate) fn set_blocking(&mut self, object: u32, blocks: bool) {
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
}
