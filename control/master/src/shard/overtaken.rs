//! Pins of upserts that end after a later one has published its bytes.
//! Invariant: a readable object has the pins it would have if all acknowledged upserts had run one
//! after the other. An upsert that may still end counts as if it had; its pin goes if it is revoked
//! or given up.

use crate::object::Flags;
use crate::pending::{OvertakenPins, Pending, PutName};
use crate::placement::SoftPin;
use crate::quarantine::Quarantined;

use super::KeyShard;

/// A put that is over, and what it does to the pins of its object if it has ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overtaken {
    object: u32,
    generation: u64,
    pins: OvertakenPins,
}

impl KeyShard {
    /// A put was published before these, which began earlier: the object is kept as they want it
    /// until each is over. If the put decides on the soft pin itself, theirs change nothing.
    pub(super) fn overtake(
        &mut self,
        object: u32,
        published: &Pending,
        puts: &[(PutName, OvertakenPins)],
    ) {
        for (put, pins) in puts {
            self.pending.note_overtaken(object, *put, *pins);
        }
        if self.pending.overtaken(object).next().is_none() {
            return;
        }
        if published.soft_pin != SoftPin::Preserve {
            self.pending.settle_soft_pin(object, published.name.generation);
        }
        self.refresh_pins(object);
    }

    /// Parked space of a put is free, so the put is over. Returns what it has pinned until now, if
    /// it did.
    pub(super) fn end_overtaken(&mut self, quarantined: &Quarantined) -> Option<Overtaken> {
        let (object, put) = (quarantined.superseded?, quarantined.put?);
        let pins = self.pending.take_overtaken(object, put)?;
        self.refresh_pins(object);
        Some(Overtaken { object, generation: put.generation, pins })
    }

    /// What can be read of an object is gone, and with it what could have been pinned.
    pub(super) fn forget_overtaken(&mut self, object: u32) {
        self.pending.forget_overtaken(object);
        self.stored.keys[object].flags.set(Flags::OVERTAKEN_PIN, false);
        self.stored.set_soft_flag(object, Flags::OVERTAKEN_SOFT_PIN, false);
    }

    /// Gives what is readable the pins of an overtaken put that has ended well.
    pub(super) fn pin_overtaken(&mut self, overtaken: Overtaken) {
        let Overtaken { object, generation, pins } = overtaken;
        if pins.hard {
            self.stored.keys[object].flags.set(Flags::HARD_PIN, true);
            self.note_flags(object);
        }
        if pins.soft != SoftPin::Preserve {
            let end_ms = self.soft_end_ms(pins.soft, None);
            self.set_soft_pin(object, end_ms);
            self.pending.settle_soft_pin(object, generation);
        }
        self.refresh_pins(object);
    }

    fn refresh_pins(&mut self, object: u32) {
        let (hard, soft) = self.overtaken_flags(object);
        self.stored.keys[object].flags.set(Flags::OVERTAKEN_PIN, hard);
        self.stored.set_soft_flag(object, Flags::OVERTAKEN_SOFT_PIN, soft);
        self.stored.refresh_blocking(object);
        let list = self.stored.list_of(object);
        self.stored.relink(object, list);
    }

    /// Whether puts that may still end would pin an object hard, and softly.
    pub(super) fn overtaken_flags(&self, object: u32) -> (bool, bool) {
        let pins = || self.pending.overtaken(object).map(|(_, pins)| pins);
        let soft = |it: OvertakenPins| matches!(it.soft, SoftPin::Enable { .. });
        (pins().any(|it| it.hard), pins().any(soft))
    }
}
