//! Unfinished puts: who writes which replicas since when.
//! Invariant: an object has the flag `PENDING` exactly while it has an entry here, and all of its
//! entries began after the put whose bytes can be read; those that it has overtaken began before.
//! A later entry never began before an earlier one, so that each order is a list to whose end the
//! new entry goes: each put of a batch is added and taken out once, at a fixed cost.

mod objects;
mod overtaken;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use perigee_schemas::PartLayout;

use crate::placement::SoftPin;
use crate::policy::ObjectKind;
use crate::put_name::PutName;
use crate::slab::Slab;
use crate::slab_list::{Neighbours, SlabList};

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
    /// Of the object, if it is new.
    pub(crate) kind: ObjectKind,
    /// How the object is cut, if it is written in parts.
    pub(crate) layout: Option<PartLayout>,
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
    puts: Slab<UnfinishedPut>,
    by_generation: HashMap<u64, u32>,
    by_object: HashMap<u32, SlabList>,
    by_start: SlabList,
    /// Puts of objects that hold the bytes of a later one, while their writers may still end them,
    /// by object and distance of the generation from the first one; those alone whose end changes
    /// a pin.
    overtaken: BTreeMap<(u32, u64), (PutName, OvertakenPins)>,
}

/// A put and its neighbours in both lists that it is in.
#[derive(Debug)]
struct UnfinishedPut {
    object: u32,
    pending: Pending,
    of_object: Neighbours,
    by_start: Neighbours,
}

/// An object and the generation that names one of its puts.
pub(crate) type PutOf = (u32, u64);

impl PendingPuts {
    pub(crate) fn new(generation_base: u64) -> Self {
        Self {
            generation_base,
            puts: Slab::new(),
            by_generation: HashMap::new(),
            by_object: HashMap::new(),
            by_start: SlabList::EMPTY,
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

    /// Adds a put, which began after all others.
    pub(crate) fn insert(&mut self, object: u32, pending: Pending) {
        let generation = pending.name.generation;
        debug_assert!(self.begins_last(object, &pending), "puts are added as they begin");
        let none = Neighbours::NONE;
        let put = UnfinishedPut { object, pending, of_object: none, by_start: none };
        let id = self.puts.insert(put);
        let before = self.by_generation.insert(generation, id);
        debug_assert!(before.is_none(), "a generation names one put");
        let of_object = self.by_object.entry(object).or_insert(SlabList::EMPTY);
        of_object.append(&mut self.puts, |put| &mut put.of_object, id);
        self.by_start.append(&mut self.puts, |put| &mut put.by_start, id);
    }

    fn begins_last(&self, object: u32, pending: &Pending) -> bool {
        let newest = self.puts.get(self.by_start.last);
        let own = self.by_object.get(&object).and_then(|list| self.puts.get(list.last));
        newest.is_none_or(|newest| newest.pending.started_ms <= pending.started_ms)
            && own.is_none_or(|own| self.is_before(&own.pending, pending.name.generation))
    }

    pub(crate) fn get(&self, object: u32, generation: u64) -> Option<&Pending> {
        let put = &self.puts[*self.by_generation.get(&generation)?];
        (put.object == object).then_some(&put.pending)
    }

    /// The unfinished puts of an object, the one that began first before the others.
    pub(crate) fn of(&self, object: u32) -> impl Iterator<Item = &Pending> {
        let list = self.by_object.get(&object).copied().unwrap_or(SlabList::EMPTY);
        list.iter(&self.puts, |put| put.of_object).map(|id| &self.puts[id].pending)
    }

    /// The unfinished put of an object whose first replica is this one.
    pub(crate) fn with_first_mut(&mut self, object: u32, first: u32) -> Option<&mut Pending> {
        let list = *self.by_object.get(&object)?;
        let mut ids = list.iter(&self.puts, |put| put.of_object);
        let found = ids.find(|id| self.puts[*id].pending.first == first)?;
        drop(ids);
        Some(&mut self.puts[found].pending)
    }

    /// Generation of the put of an object that began first of those unfinished.
    pub(crate) fn first_of(&self, object: u32) -> Option<u64> {
        self.of(object).next().map(|pending| pending.name.generation)
    }

    /// Generation of the put of an object that began first, if that was before the put of another
    /// generation.
    pub(crate) fn first_before(&self, object: u32, generation: u64) -> Option<u64> {
        let first = self.of(object).next()?;
        self.is_before(first, generation).then_some(first.name.generation)
    }

    pub(crate) fn remove(&mut self, object: u32, generation: u64) -> Option<Pending> {
        self.get(object, generation)?;
        let id = self.by_generation.remove(&generation)?;
        let put = self.puts.remove(id)?;
        self.by_start.take(&mut self.puts, |put| &mut put.by_start, id, put.by_start);
        if let Some(list) = self.by_object.get_mut(&object) {
            list.take(&mut self.puts, |put| &mut put.of_object, id, put.of_object);
            if list.is_empty() {
                self.by_object.remove(&object);
            }
        }
        Some(put.pending)
    }

    /// The put that is unfinished for the longest time, if it started at or before `until_ms`.
    pub(crate) fn oldest(&self, until_ms: u64) -> Option<PutOf> {
        let put = self.puts.get(self.by_start.first)?;
        let Pending { name, started_ms, .. } = &put.pending;
        (*started_ms <= until_ms).then_some((put.object, name.generation))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.puts.iter().map(|(_, put)| &put.pending)
    }

    pub(crate) fn len(&self) -> usize {
        self.puts.len()
    }

    /// Panics unless all ways to a put agree, and each list is in order.
    pub(crate) fn check(&self) {
        self.puts.check();
        assert_eq!(self.by_start.check(&self.puts, |put| put.by_start), self.len());
        assert_eq!(self.by_generation.len(), self.len());
        let starts = self.by_start.iter(&self.puts, |put| put.by_start);
        assert!(starts.map(|id| self.puts[id].pending.started_ms).is_sorted());
        let mut listed = 0;
        for (&object, list) in &self.by_object {
            listed += list.check(&self.puts, |put| put.of_object);
            assert!(!list.is_empty(), "an object without puts is not here");
            let numbers = self.of(object).map(|put| self.key(object, put.name.generation));
            assert!(numbers.is_sorted(), "in the order of generations");
        }
        assert_eq!(listed, self.len());
        for (generation, id) in &self.by_generation {
            let put = &self.puts[*id];
            assert_eq!(put.pending.name.generation, *generation);
            assert!(self.of(put.object).any(|other| std::ptr::eq(other, &raw const put.pending)));
        }
    }

    fn is_before(&self, put: &Pending, generation: u64) -> bool {
        let distance = |generation: u64| generation.wrapping_sub(self.generation_base);
        distance(put.name.generation) < distance(generation)
    }

    fn key(&self, object: u32, generation: u64) -> (u32, u64) {
        (object, generation.wrapping_sub(self.generation_base))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OBJECTS: u32 = 4;
    /// Generations wrap around in each run.
    const GENERATION_BASE: u64 = u64::MAX - 3;

    fn put(generation: u64, started_ms: u64) -> Pending {
        Pending {
            kind: ObjectKind::default(),
            name: PutName { client: 1, generation },
            started_ms,
            first: generation as u32,
            hard_pin: false,
            soft_pin: SoftPin::Preserve,
            replaces: Pins::default(),
            layout: None,
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Begin { object: u32, after_ms: u64 },
        End { nth: usize },
        EndOldest,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..OBJECTS, 0..2_u64)
                .prop_map(|(object, after_ms)| Step::Begin { object, after_ms }),
            2 => (0..64_usize).prop_map(|nth| Step::End { nth }),
            1 => Just(Step::EndOldest),
        ]
    }

    proptest! {
        /// A plain vector in the order of the starts says the same.
        #[test]
        fn puts_are_found_in_the_order_in_which_they_began(
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut puts = PendingPuts::new(GENERATION_BASE);
            let mut model: Vec<(u32, u64, u64)> = Vec::new();
            let (mut generation, mut now_ms) = (GENERATION_BASE, 0);
            for step in steps {
                let ended = match step {
                    Step::Begin { object, after_ms } => {
                        now_ms += after_ms;
                        puts.insert(object, put(generation, now_ms));
                        model.push((object, generation, now_ms));
                        generation = generation.wrapping_add(1);
                        None
                    }
                    Step::End { nth } => (!model.is_empty()).then(|| nth % model.len()),
                    Step::EndOldest => {
                        let oldest = puts.oldest(now_ms);
                        prop_assert_eq!(oldest, model.first().map(|put| (put.0, put.1)));
                        (!model.is_empty()).then_some(0)
                    }
                };
                if let Some(at) = ended {
                    let (object, generation, started_ms) = model.remove(at);
                    prop_assert!(puts.remove((object + 1) % OBJECTS, generation).is_none());
                    let removed = puts.remove(object, generation);
                    prop_assert_eq!(removed.map(|put| put.started_ms), Some(started_ms));
                    prop_assert!(puts.get(object, generation).is_none());
                }
                puts.check();
                for object in 0..OBJECTS {
                    let own = || model.iter().filter(move |put| put.0 == object).map(|put| put.1);
                    let found: Vec<u64> = puts.of(object).map(|put| put.name.generation).collect();
                    prop_assert_eq!(&found, &own().collect::<Vec<_>>());
                    prop_assert_eq!(puts.first_of(object), own().next());
                    prop_assert_eq!(puts.first_before(object, generation), own().next());
                    if let Some(first) = own().next() {
                        prop_assert_eq!(puts.first_before(object, first), None);
                        let found = puts.with_first_mut(object, first as u32);
                        prop_assert_eq!(found.map(|put| put.name.generation), Some(first));
                    }
                }
            }
        }
    }
}
