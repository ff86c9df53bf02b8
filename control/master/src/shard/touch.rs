//! Leases and recency: what a probe or a read of an object changes.
//! Invariant: only its readers shorten a lease, and all members of a group get the lease together.

use crate::list_name::ListName;

use crate::object::Flags;
use crate::policy::{KeyAccess, ObjectKind};
use crate::slab::NONE;

use super::KeyShard;

/// Why an object is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    /// A client asked whether it exists.
    Probe,
    /// A client got its descriptors.
    Read,
}

impl KeyShard {
    /// Grants the lease to an object, or to its whole group, and makes it the newest. Returns the
    /// name by which a reader gives its lease back.
    pub(super) fn touch(&mut self, object: u32, touch: Touch) -> u64 {
        if touch == Touch::Read {
            let kind = self.kind_of(object).read();
            self.keys[object].set_kind(kind);
            self.note_access(object, kind, true);
        }
        match self.keys[object].group {
            NONE => self.touch_one(object, touch),
            group => self.touch_group(group, object, touch),
        }
        self.lease_name(object)
    }

    /// The kind of an object, or of its group.
    pub(super) fn kind_of(&self, object: u32) -> ObjectKind {
        let record = &self.keys[object];
        match self.groups.get(record.group) {
            None => record.kind(),
            Some(group) if group.seen.hit => ObjectKind::READ,
            Some(_) => ObjectKind::GROUPED,
        }
    }

    /// Tells the policy of an access to an object that is of this kind from now on, and whether the
    /// shard had it.
    pub(super) fn note_access(&mut self, object: u32, kind: ObjectKind, hit: bool) {
        self.note_access_of(self.keys[object].hash(), kind, hit);
    }

    /// As `note_access`, of what a key with this hash has.
    pub(super) fn note_access_of(&mut self, hash: u64, kind: ObjectKind, hit: bool) {
        let stamp = self.clock.last();
        let access = KeyAccess { hash, kind, hit, stamp, call: self.calls };
        self.policy.accessed(access, self.keys.len());
    }

    /// Each reader of each member is counted; the group becomes the newest once per call.
    fn touch_group(&mut self, group: u32, object: u32, touch: Touch) {
        let (now_ms, calls) = (self.now_ms, self.calls);
        let end_ms = now_ms.saturating_add(self.settings.lease_ttl_ms);
        let Some(part) = self.groups.get_mut(group) else {
            return;
        };
        let is_read = part.seen.read_end_ms > now_ms;
        let is_first = part.note_call(calls);
        match touch {
            Touch::Read => {
                self.keys[object].grant(now_ms, end_ms);
                part.update(|whole| whole.grant(now_ms, end_ms));
            }
            Touch::Probe if is_first => {
                part.update(|whole| whole.probe_end_ms = whole.probe_end_ms.max(end_ms));
            }
            Touch::Probe => {}
        }
        if !is_first {
            return;
        }
        self.clock.touch();
        // As with single objects: a probe leaves what is being read where it is.
        if touch == Touch::Read || !is_read {
            self.relink_group(group);
        }
    }

    fn touch_one(&mut self, object: u32, touch: Touch) {
        let now_ms = self.now_ms;
        let end_ms = now_ms.saturating_add(self.settings.lease_ttl_ms);
        let stamp = self.clock.touch();
        let record = &mut self.keys[object];
        match touch {
            Touch::Read => {
                record.grant(now_ms, end_ms);
                record.flags.set(Flags::HIT, true);
            }
            Touch::Probe => {
                record.probe_end_ms = record.probe_end_ms.max(end_ms);
                if record.read_end_ms > now_ms {
                    // It stays where the read put it, so that the lists of readers stay in order of
                    // lease ends.
                    return;
                }
            }
        }
        debug_assert!(record.stamp < stamp, "each touch is later");
        record.stamp = stamp;
        let list = self.list_of(object);
        if list != ListName::Held {
            self.relink(object, list);
        }
    }
}
