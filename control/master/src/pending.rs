//! Unfinished puts: who writes which replicas since when.
//! Invariant: an object has the flag `PENDING` exactly while it has an entry here, and all of its
//! entries began after the put whose bytes can be read; those that it has overtaken began before.

use std::collections::{BTreeMap, BTreeSet};

use crate::placement::SoftPin;

/// What tells one put of a key from any other of it, so that a late message ends or frees only its
/// own put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PutName {
    /// The writer.
    pub(crate) client: u128,
    /// Generation of the first replica that the writer was given.
    pub(crate) generation: u64,
}

/// A started put that has neither ended nor been revoked.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) name: PutName,
    pub(crate) started_ms: u64,
    /// First replica being written, or `NONE` if all were lost with their segments.
    pub(crate) first: u32,
    pub(crate) hard_pin: bool,
    pub(crate) soft_pin: SoftPin,
    /// The pins at its start; used if nothing is left to replace at its end.
    pub(crate) replaces: Pins,
}

impl Pending {
    /// What it does to pins.
    pub(crate) fn pins(&self) -> OvertakenPins {
        OvertakenPins { hard: self.hard_pin, soft: self.soft_pin }
    }
}

/// The pins of an object that is being replaced.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pins {
    pub(crate) hard: bool,
    pub(crate) soft_end_ms: Option<u64>,
}

/// What an unfinished put does to the pins of what is readable of its object, once it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OvertakenPins {
    pub(crate) hard: bool,
    /// `Preserve` if it changes nothing.
    pub(crate) soft: SoftPin,
}

impl OvertakenPins {
    fn is_nothing(self) -> bool {
        !self.hard && self.soft == SoftPin::Preserve
    }
}

/// Several puts of one object may be unfinished at once. They are kept in the order in which they
/// began, which is that of their generations.
#[derive(Debug)]
pub(crate) struct PendingPuts {
    /// The first generation ever given; later ones may wrap around.
    generation_base: u64,
    /// By object and the distance of the generation from the first one.
    by_object: BTreeMap<(u32, u64), Pending>,
    by_start: BTreeSet<(u64, PutOf)>,
    /// Puts of objects that hold the bytes of a later one, while their writers may still end them,
    /// in the same order; those alone whose end changes a pin.
    overtaken: BTreeMap<(u32, u64), (PutName, OvertakenPins)>,
}

/// An object and the generation that names one of its puts.
pub(crate) type PutOf = (u32, u64);

impl PendingPuts {
    pub(crate) fn new(generation_base: u64) -> Self {
        Self {
            generation_base,
            by_object: BTreeMap::new(),
            by_start: BTreeSet::new(),
            overtaken: BTreeMap::new(),
        }
    }

    /// Notes that a later put of an object was published before this one.
    pub(crate) fn note_overtaken(&mut self, object: u32, put: PutName, pins: OvertakenPins) {
        if !pins.is_nothing() {
            self.overtaken.insert(self.key(object, put.generation), (put, pins));
        }
    }

    /// What was noted of a put, which is over now.
    pub(crate) fn take_overtaken(&mut self, object: u32, put: PutName) -> Option<OvertakenPins> {
        let key = self.key(object, put.generation);
        let &(_, pins) = self.overtaken.get(&key).filter(|(name, _)| *name == put)?;
        self.overtaken.remove(&key);
        Some(pins)
    }

    /// The overtaken puts of an object, the one that began first before the others.
    pub(crate) fn overtaken(&self, object: u32) -> impl Iterator<Item = (PutName, OvertakenPins)> {
        self.overtaken.range((object, 0)..=(object, u64::MAX)).map(|(_, overtaken)| *overtaken)
    }

    /// A put of an object has decided on its soft pin: those that began before it change it no
    /// more.
    pub(crate) fn settle_soft_pin(&mut self, object: u32, generation: u64) {
        let earlier = (object, 0)..self.key(object, generation);
        for (_, (_, pins)) in self.overtaken.range_mut(earlier.clone()) {
            pins.soft = SoftPin::Preserve;
        }
        let nothing = self.overtaken.range(earlier).filter(|(_, (_, pins))| pins.is_nothing());
        let nothing: Vec<(u32, u64)> = nothing.map(|(key, _)| *key).collect();
        for key in nothing {
            self.overtaken.remove(&key);
        }
    }

    /// What can be read of an object is gone, and with it what could have been pinned.
    pub(crate) fn forget_overtaken(&mut self, object: u32) {
        let noted: Vec<PutName> = self.overtaken(object).map(|(put, _)| put).collect();
        for put in noted {
            self.take_overtaken(object, put);
        }
    }

    pub(crate) fn insert(&mut self, object: u32, pending: Pending) {
        let generation = pending.name.generation;
        self.by_start.insert((pending.started_ms, (object, generation)));
        let before = self.by_object.insert(self.key(object, generation), pending);
        debug_assert!(before.is_none(), "a generation names one put");
    }

    pub(crate) fn get(&self, object: u32, generation: u64) -> Option<&Pending> {
        self.by_object.get(&self.key(object, generation))
    }

    /// The unfinished puts of an object, the one that began first before the others.
    pub(crate) fn of(&self, object: u32) -> impl DoubleEndedIterator<Item = &Pending> {
        self.by_object.range((object, 0)..=(object, u64::MAX)).map(|(_, pending)| pending)
    }

    pub(crate) fn of_mut(&mut self, object: u32) -> impl Iterator<Item = &mut Pending> {
        self.by_object.range_mut((object, 0)..=(object, u64::MAX)).map(|(_, pending)| pending)
    }

    /// Generation of the put of an object that began first of those unfinished.
    pub(crate) fn first_of(&self, object: u32) -> Option<u64> {
        self.of(object).next().map(|pending| pending.name.generation)
    }

    /// Generation of the put of an object that began first, if that was before the put of another
    /// generation.
    pub(crate) fn first_before(&self, object: u32, generation: u64) -> Option<u64> {
        let earlier = (object, 0)..self.key(object, generation);
        let (_, pending) = self.by_object.range(earlier).next()?;
        Some(pending.name.generation)
    }

    pub(crate) fn remove(&mut self, object: u32, generation: u64) -> Option<Pending> {
        let pending = self.by_object.remove(&self.key(object, generation))?;
        self.by_start.remove(&(pending.started_ms, (object, generation)));
        Some(pending)
    }

    /// The put that is unfinished for the longest time, if it started at or before `until_ms`.
    pub(crate) fn oldest(&self, until_ms: u64) -> Option<PutOf> {
        let &(started_ms, put) = self.by_start.first()?;
        (started_ms <= until_ms).then_some(put)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_object.len()
    }

    /// Panics unless both orders hold the same puts.
    pub(crate) fn check(&self) {
        assert_eq!(self.by_object.len(), self.by_start.len());
        for (&(object, number), pending) in &self.by_object {
            let generation = pending.name.generation;
            assert_eq!(self.key(object, generation), (object, number));
            let start = (pending.started_ms, (object, generation));
            assert!(self.by_start.contains(&start), "{start:?} is in order");
        }
    }

    fn key(&self, object: u32, generation: u64) -> (u32, u64) {
        (object, generation.wrapping_sub(self.generation_base))
    }
}
