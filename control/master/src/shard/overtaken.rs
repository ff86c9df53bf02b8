//! Hard pins of upserts that a later one has overtaken.
//! Invariant: the pin of an upsert that is acknowledged stays on what is readable, as if each had
//! begun after the end of the one before; that of one that is revoked or given up goes with it.

use crate::object::Flags;
use crate::pending::PutName;
use crate::quarantine::Quarantined;

use super::KeyShard;

impl KeyShard {
    /// A later put was published before a hard-pinned one: the object is not evicted until that one
    /// is over.
    pub(super) fn note_overtaken_pin(&mut self, object: u32, put: PutName) {
        self.pending.note_overtaken_pin(object, put);
        self.refresh_pins(object);
    }

    /// Parked space of a put is free, so the put is over. Returns the object that it pinned until
    /// now, if it did.
    pub(super) fn end_overtaken_pin(&mut self, quarantined: &Quarantined) -> Option<u32> {
        let (object, put) = (quarantined.superseded?, quarantined.put?);
        if !self.pending.take_overtaken_pin(object, put) {
            return None;
        }
        self.refresh_pins(object);
        Some(object)
    }

    /// What can be read of an object is gone, and with it what could have been pinned.
    pub(super) fn forget_overtaken_pins(&mut self, object: u32) {
        while let Some(put) = self.pending.overtaken_pin(object) {
            self.pending.take_overtaken_pin(object, put);
        }
        let flags = &mut self.objects[object].flags;
        flags.set(Flags::OVERTAKEN_PIN, false);
    }

    /// Pins what is readable of an object.
    pub(super) fn pin_hard(&mut self, object: u32) {
        self.objects[object].flags.set(Flags::HARD_PIN, true);
        self.refresh_pins(object);
    }

    fn refresh_pins(&mut self, object: u32) {
        let is_overtaken = self.pending.overtaken_pin(object).is_some();
        let flags = &mut self.objects[object].flags;
        flags.set(Flags::OVERTAKEN_PIN, is_overtaken);
        self.refresh_blocking(object);
        let list = self.list_of(object);
        self.relink(object, list);
    }
}
