//! A list of records of a slab, linked through the records. One record may be in several lists.
//! Invariant: a record is in a list at most once, and its neighbours name it.

use crate::slab::{NONE, Slab};

/// Where a record is in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neighbours {
    before: u32,
    after: u32,
}

impl Neighbours {
    pub(crate) const NONE: Self = Self { before: NONE, after: NONE };
}

/// The first record of a list and the last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlabList {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl SlabList {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE };

    pub(crate) fn is_empty(self) -> bool {
        self.first == NONE
    }

    pub(crate) fn append<T>(
        &mut self,
        records: &mut Slab<T>,
        links: fn(&mut T) -> &mut Neighbours,
        id: u32,
    ) {
        *links(&mut records[id]) = Neighbours { before: self.last, after: NONE };
        match self.last {
            NONE => self.first = id,
            last => links(&mut records[last]).after = id,
        }
        self.last = id;
    }

    /// Takes out a record that had these neighbours.
    pub(crate) fn take<T>(
        &mut self,
        records: &mut Slab<T>,
        links: fn(&mut T) -> &mut Neighbours,
        id: u32,
        neighbours: Neighbours,
    ) {
        let Neighbours { before, after } = neighbours;
        match before {
            NONE => {
                debug_assert_eq!(self.first, id, "it begins its own list");
                self.first = after;
            }
            before => links(&mut records[before]).after = after,
        }
        match after {
            NONE => {
                debug_assert_eq!(self.last, id, "it ends its own list");
                self.last = before;
            }
            after => links(&mut records[after]).before = before,
        }
    }

    /// The numbers of the records from first to last.
    pub(crate) fn iter<T>(
        self,
        records: &Slab<T>,
        neighbours: fn(&T) -> Neighbours,
    ) -> impl Iterator<Item = u32> {
        let exists = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(exists(self.first), move |id| exists(neighbours(&records[*id]).after))
    }

    /// Panics unless neighbours name each other. Returns how many records are
    /// in the list.
    pub(crate) fn check<T>(self, records: &Slab<T>, neighbours: fn(&T) -> Neighbours) -> usize {
        let (mut before, mut count) = (NONE, 0);
        for id in self.iter(records, neighbours) {
            assert_eq!(neighbours(&records[id]).before, before, "links of {id}");
            before = id;
            count += 1;
            assert!(count <= records.len(), "a list forms a circle");
        }
        assert_eq!(self.last, before, "the end is the last one");
        count
    }
}
