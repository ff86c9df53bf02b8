//! Slots that are used again: after the start nothing is allocated for another entry.
//!
//! A key names one occupant: once that has left, the key finds nothing, even if its slot is in use
//! again.

/// Name of an occupant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlabKey {
    index: u16,
    generation: u16,
}

impl SlabKey {
    /// The key as a number, to be carried by a device.
    pub(crate) fn bits(self) -> u32 {
        u32::from(self.generation) << 16 | u32::from(self.index)
    }

    /// The key of a number.
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self { index: bits as u16, generation: (bits >> 16) as u16 }
    }
}

#[derive(Debug)]
struct SlabSlot<T> {
    generation: u16,
    value: Option<T>,
}

/// Slots by key, up to a capacity of at most 65536.
#[derive(Debug)]
pub(crate) struct KeyedSlab<T> {
    slots: Vec<SlabSlot<T>>,
    free: Vec<u16>,
    capacity: usize,
}

impl<T> KeyedSlab<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.min(1 << 16);
        Self { slots: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity), capacity }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// Takes a slot; gives the value back if all are taken.
    pub(crate) fn insert(&mut self, value: T) -> Result<SlabKey, T> {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[usize::from(index)];
            debug_assert!(slot.value.is_none(), "a free slot has no occupant");
            slot.value = Some(value);
            let generation = slot.generation;
            return Ok(SlabKey { index, generation });
        }
        if self.slots.len() >= self.capacity {
            return Err(value);
        }
        let index = self.slots.len() as u16;
        self.slots.push(SlabSlot { generation: 0, value: Some(value) });
        let generation = 0;
        Ok(SlabKey { index, generation })
    }

    pub(crate) fn get(&self, key: SlabKey) -> Option<&T> {
        let slot = self.slots.get(usize::from(key.index))?;
        slot.value.as_ref().filter(|_| slot.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        let slot = self.slots.get_mut(usize::from(key.index))?;
        slot.value.as_mut().filter(|_| slot.generation == key.generation)
    }

    pub(crate) fn remove(&mut self, key: SlabKey) -> Option<T> {
        let slot = self.slots.get_mut(usize::from(key.index))?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        debug_assert!(self.free.len() <= self.slots.len());
        Some(value)
    }

    /// Panics unless every slot is either taken or free, once.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert!(self.slots.len() <= self.capacity);
        assert_eq!(self.iter().count(), self.len(), "what is not free is taken");
        let mut free = self.free.clone();
        free.sort_unstable();
        assert!(free.is_sorted_by(|a, b| a < b), "a slot is free once");
        let is_vacant = |index: &u16| self.slots[usize::from(*index)].value.is_none();
        assert!(free.iter().all(is_vacant), "a free slot has no occupant");
    }

    /// All occupants with their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let key = SlabKey { index: index as u16, generation: slot.generation };
            Some((key, slot.value.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn an_old_key_does_not_find_the_next_occupant() {
        let mut slab = KeyedSlab::new(1);
        let first = slab.insert('a').unwrap();
        assert_eq!(slab.insert('b'), Err('b'));
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('c').unwrap();
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(SlabKey::from_bits(second.bits())), Some(&'c'));
    }

    proptest! {
        #[test]
        fn a_slab_is_a_map_with_a_bound(
            capacity in 1usize..10, steps in proptest::collection::vec(any::<u16>(), 1..200),
        ) {
            let mut slab = KeyedSlab::new(capacity);
            let (mut model, mut gone) = (HashMap::new(), Vec::new());
            for step in steps {
                if step % 3 == 0 && !model.is_empty() {
                    let key = *model.keys().nth(usize::from(step) % model.len()).unwrap();
                    prop_assert_eq!(slab.remove(key), model.remove(&key));
                    gone.push(key);
                } else if let Ok(key) = slab.insert(step) {
                    model.insert(key, step);
                } else {
                    prop_assert!(slab.is_full());
                }
                prop_assert_eq!(slab.len(), model.len());
                let seen = slab.iter().map(|(key, value)| (key, *value));
                prop_assert_eq!(seen.collect::<HashMap<_, _>>(), model.clone());
                prop_assert!(gone.iter().all(|key| slab.get(*key).is_none()));
            }
        }
    }
}
