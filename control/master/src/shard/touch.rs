//! Touches, as the policy of eviction hears of them.
//! Invariant: it hears of each read and each put once.

use crate::touch::Touch;

use super::KeyShard;

impl KeyShard {
    /// Grants the lease to an object, or to its whole group, and makes it the newest. Returns the
    /// name by which a reader gives its lease back.
    pub(super) fn touch(&mut self, object: u32, touch: Touch) -> u64 {
        if touch == Touch::Read {
            let kind = self.stored.kind_of(object).read();
            self.stored.keys[object].set_kind(kind);
            self.order.note_access(&self.stored, object, kind, true);
        }
        self.stored.touch(object, touch)
    }
}
