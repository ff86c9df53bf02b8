//! The allocator itself: free extents ordered by offset (to merge) and by size (to fit best).
//! Invariant: both trees hold the same extents; allocated and foreign extents are known to their
//! owners only.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::AllocatorError;
use crate::extent::Extent;
use crate::limits::{LOW_HOLES_MAX, SMALL_BYTES};

/// Best fit over `[0, capacity)`: the smallest free extent that is large enough, lowest offset
/// first; small extents fill up the bottom, where new segments are made ready first.
///
/// An extent of exactly the freed size is always found again, so one odd object size loses no
/// space. Allocated extents are not stored: a key costs nothing here, and state is rebuilt from
/// descriptors.
///
/// Several allocators may share a range: each holds bytes of its own, and free ones can be ceded to
/// another.
#[derive(Debug, Clone)]
pub struct OffsetAllocator {
    /// Length of the whole range.
    limit: u64,
    /// Bytes held: all of the range unless others have a part in it.
    capacity: u64,
    used: u64,
    bytes_by_offset: BTreeMap<u64, u64>,
    by_bytes: BTreeSet<(u64, u64)>,
}

impl OffsetAllocator {
    /// An allocator whose whole range of `capacity` bytes is free.
    pub fn new(capacity: u64) -> Self {
        let mut new = Self::holding_nothing(capacity);
        if capacity > 0 {
            new.capacity = capacity;
            new.used = capacity;
            new.insert(Extent::new(0, capacity));
        }
        new
    }

    /// An allocator with a part in a range of `limit` bytes, which holds nothing of it until it
    /// [receives](Self::receive).
    pub fn holding_nothing(limit: u64) -> Self {
        Self {
            limit,
            capacity: 0,
            used: 0,
            bytes_by_offset: BTreeMap::new(),
            by_bytes: BTreeSet::new(),
        }
    }

    /// The state in which exactly `extents` (any order) are allocated.
    ///
    /// # Errors
    /// Refuses empty extents, extents beyond `capacity` and extents that overlap each other.
    pub fn rebuild(
        capacity: u64,
        extents: impl IntoIterator<Item = Extent>,
    ) -> Result<Self, AllocatorError> {
        let mut taken: Vec<Extent> = extents.into_iter().collect();
        taken.sort_unstable();
        let mut new = Self::holding_nothing(capacity);
        new.capacity = capacity;
        new.used = capacity;
        let mut free_from = 0;
        let mut last = Extent::new(0, 0);
        for extent in taken {
            let end = new.check_range(extent)?;
            if extent.offset < free_from {
                return Err(AllocatorError::Overlap { first: last, second: extent });
            }
            new.insert_if_any(free_from, extent.offset);
            free_from = end;
            last = extent;
        }
        new.insert_if_any(free_from, capacity);
        Ok(new)
    }

    /// Takes `bytes` bytes from the best fitting hole, or `None` if no free extent is that long (or
    /// `bytes` is 0).
    pub fn alloc(&mut self, bytes: u64) -> Option<Extent> {
        if bytes == 0 {
            return None;
        }
        let hole = self.hole(bytes)?;
        debug_assert!(hole.bytes >= bytes, "the hole is long enough");
        let left_bytes = hole.bytes - bytes;
        self.by_bytes.remove(&(hole.bytes, hole.offset));
        self.bytes_by_offset.remove(&hole.offset);
        if left_bytes > 0 {
            self.bytes_by_offset.insert(hole.offset + bytes, left_bytes);
            self.by_bytes.insert((left_bytes, hole.offset + bytes));
        }
        self.used += bytes;
        debug_assert!(self.used <= self.capacity, "only held bytes are handed out");
        Some(Extent::new(hole.offset, bytes))
    }

    /// The free extent whose lower end is given to an allocation: an exact fit, or as the type
    /// describes.
    fn hole(&self, bytes: u64) -> Option<Extent> {
        let &(best_bytes, best_offset) = self.by_bytes.range((bytes, 0)..).next()?;
        let mut lowest = None;
        if bytes < SMALL_BYTES && best_bytes > bytes {
            let holes = self.bytes_by_offset.iter().take(LOW_HOLES_MAX);
            lowest = holes.map(as_extent).find(|hole| hole.bytes >= bytes);
        }
        Some(lowest.unwrap_or(Extent::new(best_offset, best_bytes)))
    }

    /// Gives an extent back and merges it with its free neighbours.
    ///
    /// # Errors
    /// Refuses an extent that is empty, out of range, or partly free already (double free).
    pub fn free(&mut self, extent: Extent) -> Result<(), AllocatorError> {
        self.merge(extent)?;
        debug_assert!(extent.bytes <= self.used, "only bytes that were handed out come back");
        self.used -= extent.bytes;
        Ok(())
    }

    /// Takes over bytes that are free and that it does not hold, from another holder of the same
    /// range.
    ///
    /// # Errors
    /// Refuses an extent that is empty, out of range, or partly free here already.
    pub fn receive(&mut self, extent: Extent) -> Result<(), AllocatorError> {
        self.merge(extent)?;
        self.capacity += extent.bytes;
        debug_assert!(self.capacity <= self.limit, "each byte has one holder");
        Ok(())
    }

    /// Takes over bytes that are allocated already, by an object that comes with them.
    ///
    /// # Errors
    /// Refuses an extent that is empty or out of range.
    pub fn receive_allocated(&mut self, extent: Extent) -> Result<(), AllocatorError> {
        self.check_range(extent)?;
        self.capacity += extent.bytes;
        self.used += extent.bytes;
        debug_assert!(self.capacity <= self.limit, "each byte has one holder");
        Ok(())
    }

    /// Gives up to `bytes` bytes of the longest free extent away, from its upper end, starting at a
    /// multiple of `alignment` if the extent allows it. `None` if nothing is free or `bytes` is 0.
    pub fn cede(&mut self, bytes: u64, alignment: u64) -> Option<Extent> {
        let &(hole_bytes, offset) = self.by_bytes.last()?;
        if bytes == 0 {
            return None;
        }
        let end = offset + hole_bytes;
        let start = end - bytes.min(hole_bytes);
        let start = (start - start % alignment.max(1)).max(offset);
        self.by_bytes.remove(&(hole_bytes, offset));
        self.bytes_by_offset.remove(&offset);
        if start > offset {
            self.bytes_by_offset.insert(offset, start - offset);
            self.by_bytes.insert((start - offset, offset));
        }
        debug_assert!(offset <= start && start < end, "what goes lies in the hole");
        self.capacity -= end - start;
        debug_assert!(self.used <= self.capacity, "only free bytes go");
        Some(Extent::new(start, end - start))
    }

    /// Gives all free bytes within a range away, in the order of their offsets.
    pub fn cede_within(&mut self, range: Extent) -> Vec<Extent> {
        let Some(end) = range.end() else {
            return Vec::new();
        };
        let below = self.bytes_by_offset.range(..range.offset).next_back();
        let inside = self.bytes_by_offset.range(range.offset..end);
        let touched: Vec<Extent> = below.into_iter().chain(inside).map(as_extent).collect();
        let mut ceded = Vec::new();
        for hole in touched {
            let hole_end = hole.offset + hole.bytes;
            let (from, to) = (hole.offset.max(range.offset), hole_end.min(end));
            if from >= to {
                continue;
            }
            self.by_bytes.remove(&(hole.bytes, hole.offset));
            self.bytes_by_offset.remove(&hole.offset);
            for (start, end) in [(hole.offset, from), (to, hole_end)] {
                if start < end {
                    self.bytes_by_offset.insert(start, end - start);
                    self.by_bytes.insert((end - start, start));
                }
            }
            self.capacity -= to - from;
            debug_assert!(self.used <= self.capacity, "only free bytes go");
            ceded.push(Extent::new(from, to - from));
        }
        ceded
    }

    /// Adds a free extent and merges it with its free neighbours; the counts are the caller's.
    fn merge(&mut self, extent: Extent) -> Result<(), AllocatorError> {
        let end = self.check_range(extent)?;
        let mut below = self.bytes_by_offset.range(..=end).rev();
        let mut before = below.next().map(as_extent);
        let after = before.filter(|free| free.offset == end);
        if after.is_some() {
            before = below.next().map(as_extent);
        }
        if let Some(free) = before.filter(|free| free.offset + free.bytes > extent.offset) {
            return Err(AllocatorError::AlreadyFree { extent, free });
        }
        let before = before.filter(|free| free.offset + free.bytes == extent.offset);
        let mut merged = extent;
        if let Some(free) = before {
            self.by_bytes.remove(&(free.bytes, free.offset));
            merged = Extent::new(free.offset, free.bytes + merged.bytes);
        }
        if let Some(free) = after {
            self.by_bytes.remove(&(free.bytes, free.offset));
            self.bytes_by_offset.remove(&free.offset);
            merged.bytes += free.bytes;
        }
        self.bytes_by_offset.insert(merged.offset, merged.bytes);
        self.by_bytes.insert((merged.bytes, merged.offset));
        Ok(())
    }

    /// Length in bytes of the longest free extent: no larger object fits without freeing something.
    pub fn largest_free(&self) -> u64 {
        self.by_bytes.last().map_or(0, |&(bytes, _)| bytes)
    }

    /// Allocated bytes.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Free bytes.
    pub fn free_bytes(&self) -> u64 {
        self.capacity - self.used
    }

    /// Bytes held, allocated or free: the size of the managed range unless others have a part in
    /// it.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Number of free extents, a measure of fragmentation.
    pub fn free_extent_count(&self) -> usize {
        self.bytes_by_offset.len()
    }

    /// All free extents in order of their offsets.
    pub fn free_extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.bytes_by_offset.iter().map(as_extent)
    }

    /// Panics if the two trees or the counts disagree: for tests and the simulation. Takes a step
    /// per free extent.
    pub fn check(&self) {
        assert!(self.used <= self.capacity && self.capacity <= self.limit);
        assert_eq!(self.bytes_by_offset.len(), self.by_bytes.len());
        let mut free_bytes = 0;
        let mut end = None;
        for hole in self.free_extents() {
            let known = self.by_bytes.contains(&(hole.bytes, hole.offset));
            assert!(known, "{hole} is ordered by length, too");
            assert!(hole.bytes > 0, "{hole} is not empty");
            assert!(end < Some(hole.offset), "{hole} touches the one below");
            end = hole.end();
            assert!(end.is_some_and(|end| end <= self.limit), "{hole} is inside");
            free_bytes += hole.bytes;
        }
        assert_eq!(free_bytes, self.capacity - self.used, "no byte is lost");
    }

    fn check_range(&self, extent: Extent) -> Result<u64, AllocatorError> {
        if extent.bytes == 0 {
            return Err(AllocatorError::Empty { offset: extent.offset });
        }
        match extent.end() {
            Some(end) if end <= self.limit => Ok(end),
            _ => Err(AllocatorError::OutOfRange { extent, capacity: self.limit }),
        }
    }

    fn insert_if_any(&mut self, from: u64, to: u64) {
        if from < to {
            self.insert(Extent::new(from, to - from));
        }
    }

    fn insert(&mut self, free: Extent) {
        debug_assert!(free.bytes <= self.used, "it was taken before");
        self.bytes_by_offset.insert(free.offset, free.bytes);
        self.by_bytes.insert((free.bytes, free.offset));
        self.used -= free.bytes;
    }
}

fn as_extent((&offset, &bytes): (&u64, &u64)) -> Extent {
    Extent::new(offset, bytes)
}
