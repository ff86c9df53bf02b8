//! The pins of upserts that end after a later one has published its bytes.
//! Invariant: a readable object has the pins it would have if all acknowledged upserts had run one
//! after the other.

use crate::object::Flags;
use crate::overtaken::Overtaken;
use crate::placement::SoftPin;

use super::KeyShard;

impl KeyShard {
    /// Gives what is readable the pins of an overtaken put that has ended well.
    pub(super) fn pin_overtaken(&mut self, overtaken: Overtaken) {
        let Overtaken { object, generation, pins } = overtaken;
        if pins.hard {
            self.stored.keys[object].flags.set(Flags::HARD_PIN, true);
            self.owner_notes().note_flags(object);
        }
        if pins.soft != SoftPin::Preserve {
            let end_ms =
                pins.soft.end_ms(self.stored.clock.now_ms(), self.settings.soft_pin_ttl_ms, None);
            self.owner_notes().set_soft_pin(object, end_ms);
            self.pending.settle_soft_pin(object, generation);
        }
        self.pending.refresh_pins(&mut self.stored, object);
    }
}
