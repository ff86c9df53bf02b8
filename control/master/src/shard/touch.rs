//! Touches, as the policy of eviction hears of them.
//! Invariant: it hears of each read and each put once.

use crate::policy::{KeyAccess, ObjectKind};
use crate::touch::Touch;

use super::KeyShard;

impl KeyShard {
    /// Grants the lease to an object, or to its whole group, and makes it the newest. Returns the
    /// name by which a reader gives its lease back.
    pub(super) fn touch(&mut self, object: u32, touch: Touch) -> u64 {
        if touch == Touch::Read {
            let kind = self.stored.kind_of(object).read();
            self.stored.keys[object].set_kind(kind);
            self.note_access(object, kind, true);
        }
        self.stored.touch(object, touch)
    }

    /// Tells the policy of an access to an object that is of this kind from now on, and whether the
    /// shard had it.
    pub(super) fn note_access(&mut self, object: u32, kind: ObjectKind, hit: bool) {
        self.note_access_of(self.stored.keys[object].hash(), kind, hit);
    }

    /// As `note_access`, of what a key with this hash has.
    pub(super) fn note_access_of(&mut self, hash: u64, kind: ObjectKind, hit: bool) {
        let stamp = self.stored.clock.last();
        let access = KeyAccess { hash, kind, hit, stamp, call: self.stored.clock.call() };
        self.policy.accessed(access, self.stored.keys.len());
    }
}
