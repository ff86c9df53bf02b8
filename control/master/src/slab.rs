//! Records addressed by small numbers, in chunks that never move.
//! Invariant: a number stays valid until its record is removed; growth copies nothing.

use crate::free_numbers::FreeNumbers;

const CHUNK_RECORDS: usize = 1 << 12;

/// A number that no record has.
pub(crate) const NONE: u32 = u32::MAX;

/// A slab whose freed numbers are given out again, the lowest first.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: FreeNumbers,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), free: FreeNumbers::default(), len: 0 }
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
        let Some(id) = self.free.take_lowest() else {
            return self.push(record);
        };
        let entry = &mut self.chunks[id as usize / CHUNK_RECORDS][id as usize % CHUNK_RECORDS];
        debug_assert!(entry.is_none(), "{id} was removed");
        *entry = Some(record);
        id
    }

    fn push(&mut self, record: T) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_RECORDS) {
            self.chunks.push(Vec::with_capacity(CHUNK_RECORDS));
        }
        let chunk = self.chunks.last_mut().expect("a chunk was added above if there was none");
        debug_assert!(chunk.len() < CHUNK_RECORDS, "chunks never move");
        chunk.push(Some(record));
        debug_assert!(self.bound() < NONE, "a number is not NONE");
        self.bound() - 1
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let entry = self
            .chunks
            .get_mut(id as usize / CHUNK_RECORDS)?
            .get_mut(id as usize % CHUNK_RECORDS)?;
        let removed = entry.take()?;
        self.free.add(id);
        self.len -= 1;
        Some(removed)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.chunks.get(id as usize / CHUNK_RECORDS)?.get(id as usize % CHUNK_RECORDS)?.as_ref()
    }

    /// All records with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> + Clone {
        (0..self.bound()).filter_map(|id| Some((id, self.get(id)?)))
    }

    /// Panics unless every number is either used or free.
    pub(crate) fn check(&self) {
        self.free.check();
        for id in 0..self.bound() {
            assert_ne!(self.get(id).is_some(), self.free.has(id), "{id} is either used or free");
        }
        assert_eq!(self.iter().count(), self.len);
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(id as usize / CHUNK_RECORDS)?;
        chunk.get_mut(id as usize % CHUNK_RECORDS)?.as_mut()
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
