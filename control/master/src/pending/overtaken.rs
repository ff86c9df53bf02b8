//! Pins of upserts that end after a later one has published its bytes.
//! Invariant: a readable object has the pins it would have if all acknowledged upserts had run one
//! after the other. An upsert that may still end counts as if it had; its pin goes if it is revoked
//! or given up.

use crate::object::Flags;
use crate::overtaken::Overtaken;
use crate::pending::{OvertakenPins, Pending};
use crate::placement::SoftPin;
use crate::put_name::PutName;
use crate::quarantine::Quarantined;
use crate::stored::StoredObjects;

use super::PendingPuts;

impl PendingPuts {
    /// A put was published before these, which began earlier: the object is kept as they want it
    /// until each is over. If the put decides on the soft pin itself, theirs change nothing.
    pub(crate) fn overtake(
        &mut self,
        stored: &mut StoredObjects,
        object: u32,
        published: &Pending,
        puts: &[(PutName, OvertakenPins)],
    ) {
        for (put, pins) in puts {
            self.note_overtaken(object, *put, *pins);
        }
        if self.overtaken(object).next().is_none() {
            return;
        }
        if published.soft_pin != SoftPin::Preserve {
            self.settle_soft_pin(object, published.name.generation);
        }
        self.refresh_pins(stored, object);
    }

    /// Parked space of a put is free, so the put is over. Returns what it has pinned until now, if
    /// it did.
    pub(crate) fn end_overtaken(
        &mut self,
        stored: &mut StoredObjects,
        quarantined: &Quarantined,
    ) -> Option<Overtaken> {
        let (object, put) = (quarantined.superseded?, quarantined.put?);
        let pins = self.take_overtaken(object, put)?;
        self.refresh_pins(stored, object);
        Some(Overtaken { object, generation: put.generation, pins })
    }

    /// What can be read of an object is gone, and with it what could have been pinned.
    pub(crate) fn unpin_overtaken(&mut self, stored: &mut StoredObjects, object: u32) {
        self.forget_overtaken(object);
        stored.keys[object].flags.set(Flags::OVERTAKEN_PIN, false);
        stored.set_soft_flag(object, Flags::OVERTAKEN_SOFT_PIN, false);
    }

    pub(crate) fn refresh_pins(&mut self, stored: &mut StoredObjects, object: u32) {
        let (hard, soft) = self.overtaken_flags(object);
        stored.keys[object].flags.set(Flags::OVERTAKEN_PIN, hard);
        stored.set_soft_flag(object, Flags::OVERTAKEN_SOFT_PIN, soft);
        stored.refresh_blocking(object);
        let list = stored.list_of(object);
        stored.relink(object, list);
    }

    /// Whether puts that may still end would pin an object hard, and softly.
    pub(crate) fn overtaken_flags(&self, object: u32) -> (bool, bool) {
        let pins = || self.overtaken(object).map(|(_, pins)| pins);
        let soft = |it: OvertakenPins| matches!(it.soft, SoftPin::Enable { .. });
        (pins().any(|it| it.hard), pins().any(soft))
    }
}
