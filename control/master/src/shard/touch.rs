//! Leases and recency: what a probe or a read of an object changes.
//! Invariant: leases are never shortened, and all members of a group get the lease together.

use crate::recency::ListName;

use crate::object::Flags;

use super::Shard;

/// Why an object is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    /// Somebody asked whether it exists.
    Probe,
    /// Somebody got its descriptors.
    Read,
}

impl Shard {
    /// Grants the lease to an object, or to its whole group once per call, and makes it the newest.
    pub(super) fn touch(&mut self, object: u32, touch: Touch) {
        if !self.note_group_touch(object, touch) {
            return;
        }
        self.for_each_member(object, |shard, member| shard.touch_one(member, touch));
    }

    /// Extends the group's lease; false if this call did so before.
    fn note_group_touch(&mut self, object: u32, touch: Touch) -> bool {
        let end_ms = self.now_ms.saturating_add(self.settings.lease_ttl_ms);
        let Some(group) = self.groups.get_mut(self.objects[object].group) else {
            return true;
        };
        match touch {
            Touch::Probe => group.probe_end_ms = group.probe_end_ms.max(end_ms),
            Touch::Read => group.read_end_ms = group.read_end_ms.max(end_ms),
        }
        std::mem::replace(&mut group.touched_by_call, self.calls) != self.calls
    }

    fn touch_one(&mut self, object: u32, touch: Touch) {
        let now_ms = self.now_ms;
        let end_ms = now_ms.saturating_add(self.settings.lease_ttl_ms);
        self.clock += 1;
        let record = &mut self.objects[object];
        match touch {
            Touch::Read => {
                record.read_end_ms = record.read_end_ms.max(end_ms);
                record.flags.set(Flags::HIT, true);
            }
            Touch::Probe => {
                record.probe_end_ms = record.probe_end_ms.max(end_ms);
                if record.read_end_ms > now_ms {
                    // It stays where the read put it, so that the lists of readers stay in order of lease ends.
                    return;
                }
            }
        }
        record.stamp = self.clock;
        let list = self.list_of(object);
        if list != ListName::Held {
            self.relink(object, list);
        }
    }
}
