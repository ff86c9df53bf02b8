//! Records addressed by small numbers, in chunks that never move.
//! Invariant: a number stays valid until its record is removed; growth copies nothing.

const CHUNK_RECORDS: usize = 1 << 12;

/// A number that no record has.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug)]
enum SlabEntry<T> {
    Free(u32),
    Used(T),
}

/// A slab whose freed numbers are given out again, last freed first.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<SlabEntry<T>>>,
    free: u32,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), free: NONE, len: 0 }
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// One past the highest number ever given out, for scans.
    pub(crate) fn bound(&self) -> u32 {
        match self.chunks.last() {
            None => 0,
            Some(last) => ((self.chunks.len() - 1) * CHUNK_RECORDS + last.len()) as u32,
        }
    }

    pub(crate) fn insert(&mut self, record: T) -> u32 {
        self.len += 1;
        if self.free == NONE {
            return self.push(record);
        }
        let id = self.free;
        let entry = &mut self.chunks[id as usize / CHUNK_RECORDS][id as usize % CHUNK_RECORDS];
        debug_assert!(matches!(entry, SlabEntry::Free(_)), "{id} was removed");
        if let SlabEntry::Free(next) = *entry {
            self.free = next;
        }
        *entry = SlabEntry::Used(record);
        id
    }

    fn push(&mut self, record: T) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_RECORDS) {
            self.chunks.push(Vec::with_capacity(CHUNK_RECORDS));
        }
        let chunk = self.chunks.last_mut().expect("a chunk was added above if there was none");
        debug_assert!(chunk.len() < CHUNK_RECORDS, "chunks never move");
        chunk.push(SlabEntry::Used(record));
        debug_assert!(self.bound() < NONE, "a number is not NONE");
        self.bound() - 1
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let entry = self
            .chunks
            .get_mut(id as usize / CHUNK_RECORDS)?
            .get_mut(id as usize % CHUNK_RECORDS)?;
        if matches!(entry, SlabEntry::Free(_)) {
            return None;
        }
        let removed = std::mem::replace(entry, SlabEntry::Free(self.free));
        self.free = id;
        self.len -= 1;
        match removed {
            SlabEntry::Used(record) => Some(record),
            SlabEntry::Free(_) => None,
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        match self.chunks.get(id as usize / CHUNK_RECORDS)?.get(id as usize % CHUNK_RECORDS)? {
            SlabEntry::Used(record) => Some(record),
            SlabEntry::Free(_) => None,
        }
    }

    /// All records with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> + Clone {
        (0..self.bound()).filter_map(|id| Some((id, self.get(id)?)))
    }

    /// Panics unless every number is either used or in the chain of free ones.
    pub(crate) fn check(&self) {
        let entry =
            |id: u32| &self.chunks[id as usize / CHUNK_RECORDS][id as usize % CHUNK_RECORDS];
        let mut free = 0;
        let mut next = self.free;
        while next != NONE {
            let after = match entry(next) {
                SlabEntry::Free(after) => Some(*after),
                SlabEntry::Used(_) => None,
            };
            assert!(after.is_some(), "{next} is both used and free");
            next = after.unwrap_or(NONE);
            free += 1;
            assert!(free <= self.bound() as usize, "free numbers form a circle");
        }
        assert_eq!(self.iter().count(), self.len);
        assert_eq!(self.len + free, self.bound() as usize, "no number is lost");
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(id as usize / CHUNK_RECORDS)?;
        match chunk.get_mut(id as usize % CHUNK_RECORDS)? {
            SlabEntry::Used(record) => Some(record),
            SlabEntry::Free(_) => None,
        }
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        self.get(id).expect("links between records are removed together with the records")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        self.get_mut(id).expect("links between records are removed together with the records")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_and_others_keep_their_records() {
        let mut slab = Slab::new();
        let ids: Vec<u32> = (0..10_000).map(|value| slab.insert(value)).collect();
        assert_eq!(slab.remove(ids[17]), Some(17));
        assert_eq!(slab.remove(ids[17]), None);
        assert_eq!(slab.get(ids[17]), None);
        assert_eq!(slab.insert(-1), ids[17]);
        assert_eq!((slab[ids[9_999]], slab[ids[17]]), (9_999, -1));
        assert_eq!((slab.len(), slab.bound()), (10_000, 10_000));
    }

    #[test]
    fn an_unknown_number_has_no_record() {
        let mut slab = Slab::<u8>::new();
        assert_eq!(slab.get(NONE), None);
        assert_eq!(slab.remove(5), None);
    }
}
