//! Managed buffers: pieces of one memfd that is mapped once and registered once, in size classes
//! that are powers of two.
//! Invariant: no two living buffers share a byte, and a buffer is aligned to its class.

use crate::error::{BufferError, EngineError};
use crate::limits::{ARENA_BYTES, MANAGED_BYTES_MAX, MANAGED_BYTES_MIN};
use perigee_memory::Segment;
use perigee_memory::segment::SegmentOptions;
use perigee_settings::SettingError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of size classes.
const CLASSES: usize = (MANAGED_BYTES_MAX / MANAGED_BYTES_MIN).ilog2() as usize + 1;

/// The memory and what of it is free.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Arc<Segment>,
    places: ArenaSpace,
}

impl Arena {
    /// Maps the arena; its pages are taken from the system when they are first touched.
    pub(crate) fn create() -> Result<Self, EngineError> {
        let memory = Segment::create(ARENA_BYTES, &SegmentOptions::default())
            .map_err(|error| EngineError::Memory(error.to_string()))?;
        Ok(Self { memory: Arc::new(memory), places: ArenaSpace::new(ARENA_BYTES) })
    }

    /// The whole.
    pub(crate) fn memory(&self) -> &Arc<Segment> {
        &self.memory
    }

    fn base(&self) -> u64 {
        self.memory.base() as u64
    }

    /// A buffer of at least this many bytes.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, EngineError> {
        if bytes == 0 || bytes > MANAGED_BYTES_MAX {
            let reason = format!("managed buffers have 1 to {MANAGED_BYTES_MAX} bytes");
            return Err(SettingError::new("length", bytes.to_string(), reason).into());
        }
        let offset = self.places.allocate(class_of(bytes));
        let offset = offset.ok_or_else(|| {
            EngineError::Memory(format!(
                "the {ARENA_BYTES} bytes of managed buffers have no {bytes} left in one piece; free some"
            ))
        })?;
        Ok(self.base() + offset)
    }

    /// Gives a buffer back.
    pub(crate) fn free(&mut self, address: u64) -> Result<(), EngineError> {
        let offset = address.checked_sub(self.base());
        let freed = offset.is_some_and(|offset| self.places.free(offset));
        if freed { Ok(()) } else { Err(BufferError::NotRegistered { address }.into()) }
    }
}

/// The free and the living places of an arena, as offsets. Pure.
#[derive(Debug)]
struct ArenaSpace {
    free: [Vec<u64>; CLASSES],
    living: BTreeMap<u64, usize>,
}

impl ArenaSpace {
    fn new(bytes: u64) -> Self {
        let mut free: [Vec<u64>; CLASSES] = Default::default();
        let step = MANAGED_BYTES_MAX as usize;
        free[CLASSES - 1] = (0..bytes).step_by(step).collect();
        free[CLASSES - 1].reverse();
        Self { free, living: BTreeMap::new() }
    }

    /// Takes a place, splitting a larger one if there is none of the class.
    fn allocate(&mut self, class: usize) -> Option<u64> {
        let found = (class..CLASSES).find(|class| !self.free[*class].is_empty())?;
        let offset = self.free[found].pop()?;
        for half in (class..found).rev() {
            self.free[half].push(offset + class_bytes(half));
        }
        let is_free = self.living.insert(offset, class).is_none();
        debug_assert!(is_free, "no two living buffers begin at one place");
        debug_assert!(
            offset.is_multiple_of(class_bytes(class)),
            "a buffer is aligned to its class"
        );
        Some(offset)
    }

    /// Gives a place back and joins it with its other half as long as that is free too.
    fn free(&mut self, offset: u64) -> bool {
        let Some(mut class) = self.living.remove(&offset) else {
            return false;
        };
        let mut offset = offset;
        while class + 1 < CLASSES {
            let other = offset ^ class_bytes(class);
            let Some(index) = self.free[class].iter().position(|free| *free == other) else {
                break;
            };
            self.free[class].swap_remove(index);
            offset = offset.min(other);
            class += 1;
        }
        debug_assert!(!self.free[class].contains(&offset), "a place is free once");
        self.free[class].push(offset);
        true
    }
}

fn class_bytes(class: usize) -> u64 {
    MANAGED_BYTES_MIN << class
}

fn class_of(bytes: u64) -> usize {
    let classes = bytes.div_ceil(MANAGED_BYTES_MIN).next_power_of_two();
    let class = classes.ilog2() as usize;
    debug_assert!(class_bytes(class) >= bytes, "a buffer of a class has room for its bytes");
    class
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_go_to_the_smallest_class_that_holds_them() {
        assert_eq!((class_of(1), class_of(8 << 10), class_of((8 << 10) + 1)), (0, 0, 1));
        assert_eq!(class_of(MANAGED_BYTES_MAX), CLASSES - 1);
    }

    #[test]
    fn an_address_that_is_no_buffer_is_not_freed() {
        let mut places = ArenaSpace::new(ARENA_BYTES);
        let offset = places.allocate(3).unwrap();
        assert!(!places.free(offset + MANAGED_BYTES_MIN));
        assert!(places.free(offset));
        assert!(!places.free(offset));
    }

    proptest! {
        /// Living buffers never touch, and when all are freed the arena is whole again.
        #[test]
        fn buffers_are_disjoint_and_come_back(
            steps in proptest::collection::vec((any::<bool>(), 0..CLASSES, any::<u16>()), 1..200),
        ) {
            let mut places = ArenaSpace::new(ARENA_BYTES);
            let mut living: Vec<(u64, usize)> = Vec::new();
            for (allocate, class, pick) in steps {
                if allocate {
                    if let Some(offset) = places.allocate(class) {
                        prop_assert!(offset.is_multiple_of(class_bytes(class)));
                        let end = offset + class_bytes(class);
                        prop_assert!(end <= ARENA_BYTES);
                        let apart = |(other, other_class): &(u64, usize)| {
                            end <= *other || other + class_bytes(*other_class) <= offset
                        };
                        prop_assert!(living.iter().all(apart));
                        living.push((offset, class));
                    }
                } else if !living.is_empty() {
                    let (offset, _) = living.swap_remove(usize::from(pick) % living.len());
                    prop_assert!(places.free(offset));
                }
            }
            for (offset, _) in living {
                prop_assert!(places.free(offset));
            }
            prop_assert_eq!(places.free[CLASSES - 1].len() as u64, ARENA_BYTES / MANAGED_BYTES_MAX);
        }
    }
}
