//! Promotion: what is read often, or asked for, and lies on disks alone is copied back to memory.
//! Invariant: a promotion is a move of its object, so that the object has one at a time; the copy
//! on the disk stays.

use super::KeyShard;

impl KeyShard {
    /// Whether what lies on disks alone is copied to memory.
    pub fn promotes(&self) -> bool {
        self.settings.promotion.is_some()
    }

    /// Whether moves wait for a client.
    pub fn has_moves(&self, client: u128) -> bool {
        self.relocation.moves().next_of(client).is_some()
    }
}
