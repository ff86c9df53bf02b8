//! Packed records: all that is kept of an object that lies on a disk and nowhere else, beside its
//! key, in few bytes.
//! Invariant: a record stays at its place until it is removed or moved, and moves only when its
//! chunk is cleaned.
//!
//! Records are written one behind the other into chunks, each of one disk, because they come and
//! go as segments of that disk's log do. What is removed leaves a hole; when an eighth of all is
//! holes, the chunk with most of them is written again elsewhere.

mod chunk;
mod record;
mod writers;

use std::collections::{BTreeMap, BTreeSet};

use crate::slab::{NONE, Slab};

use chunk::{CHUNK_BYTES, Chunk};
use record::UNIT_BYTES;
use writers::Writers;

pub(crate) use record::{DiskCopy, PackedRecord};

/// A place is the number of a chunk, and below it that of a unit in so many bits.
const UNIT_BITS: u32 = (CHUNK_BYTES / UNIT_BYTES).ilog2();
/// Most chunks, so that places have 31 bits, and one more is left to clean with.
const CHUNKS_MAX: usize = (1 << (31 - UNIT_BITS)) - 2;
/// When one of so many parts of all bytes is holes, chunks are cleaned, those first that have most
/// such parts.
const WASTE_PARTS: usize = 8;

/// The records of one disk.
#[derive(Debug)]
struct OfDisk {
    /// The chunk that records are added to, or `NONE`.
    open: u32,
    records: usize,
}

#[derive(Debug)]
pub(crate) struct PackedObjects {
    chunks: Slab<Chunk>,
    disks: BTreeMap<u32, OfDisk>,
    /// Disk, lowest log segment and number of each chunk; nothing of that segment may be left.
    by_age: BTreeSet<(u32, u32, u32)>,
    /// Closed chunks with holes: eighths that are holes, and number.
    by_waste: BTreeSet<(usize, u32)>,
    writers: Writers,
    len: usize,
    used_bytes: usize,
    hole_bytes: usize,
}

impl PackedObjects {
    pub(crate) fn new() -> Self {
        Self {
            chunks: Slab::new(),
            disks: BTreeMap::new(),
            by_age: BTreeSet::new(),
            by_waste: BTreeSet::new(),
            writers: Writers::default(),
            len: 0,
            used_bytes: 0,
            hole_bytes: 0,
        }
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of records of a disk.
    pub(crate) fn count_in(&self, disk: u32) -> usize {
        self.disks.get(&disk).map_or(0, |of| of.records)
    }

    /// Adds a record; `None` if it cannot be packed, or there is no place left.
    pub(crate) fn add(&mut self, key: &[u8], copy: &DiskCopy) -> Option<u32> {
        let writer = self.writers.hold(copy.writer)?;
        let record = record::encode(key, copy, writer);
        let place = record.and_then(|record| self.append(copy.disk, &record, CHUNKS_MAX));
        match place {
            Some(_) => self.count(copy.disk),
            None => self.writers.release(writer),
        }
        place
    }

    /// The record at a place.
    pub(crate) fn get(&self, place: u32) -> PackedRecord<'_> {
        let (chunk, at) = split(place);
        self.chunks[chunk].record(at)
    }

    /// All of a record, with its writer.
    pub(crate) fn copy(&self, place: u32) -> DiskCopy {
        let record = self.get(place);
        record.copy(self.chunks[split(place).0].disk, self.writers.get(record.writer()))
    }

    /// The disk of a record.
    pub(crate) fn disk(&self, place: u32) -> u32 {
        self.chunks[split(place).0].disk
    }

    /// The object of a record was touched by a probe.
    pub(crate) fn touch(&mut self, place: u32, stamp: u64) {
        let (chunk, at) = split(place);
        self.chunks[chunk].touch(at, stamp);
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, place: u32) {
        let (number, at) = split(place);
        let chunk = &mut self.chunks[number];
        self.writers.release(chunk.record(at).writer());
        self.hole_bytes += chunk.remove(at);
        let disk = chunk.disk;
        self.len -= 1;
        if let Some(of) = self.disks.get_mut(&disk) {
            of.records -= 1;
        }
        self.note_waste(number);
    }

    /// Records of a disk whose place in its log is below a segment, some or all of them, at most
    /// `limit`; they are to be removed.
    pub(crate) fn before(&mut self, disk: u32, sequence: u32, limit: usize) -> Vec<u32> {
        while let Some(&(_, lowest, number)) = self.by_age.range((disk, 0, 0)..).next()
            && self.chunks[number].disk == disk
            && lowest < sequence
        {
            let chunk = &self.chunks[number];
            let old = chunk.places().filter(|at| chunk.record(*at).sequence() < sequence);
            let old: Vec<u32> = old.take(limit).map(|at| place(number, at)).collect();
            if !old.is_empty() {
                return old;
            }
            let lowest_now = chunk.places().map(|at| chunk.record(at).sequence()).min();
            self.set_lowest(number, lowest_now.unwrap_or(u32::MAX));
        }
        Vec::new()
    }

    /// Records of a disk, at most `limit`, and some if there are any.
    pub(crate) fn some_of(&self, disk: u32, limit: usize) -> Vec<u32> {
        let Some(&(_, _, number)) = self.by_age.range((disk, 0, 0)..=(disk, u32::MAX, NONE)).next()
        else {
            return Vec::new();
        };
        let places = self.chunks[number].places();
        places.take(limit).map(|at| place(number, at)).collect()
    }

    /// All records by their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, PackedRecord<'_>)> + '_ {
        self.chunks.iter().flat_map(|(number, chunk)| {
            chunk.places().map(move |at| (place(number, at), chunk.record(at)))
        })
    }

    /// Writes the chunk with most holes again, if there are many holes; calls `moved` with the key
    /// of each of its records, its place before, and the one now. Returns how many there were;
    /// `None` if nothing is to be done.
    pub(crate) fn clean(&mut self, mut moved: impl FnMut(&[u8], u32, u32)) -> Option<usize> {
        if self.hole_bytes * WASTE_PARTS <= self.used_bytes {
            return None;
        }
        let &(parts, number) = self.by_waste.last()?;
        self.by_waste.remove(&(parts, number));
        let disk = self.chunks[number].disk;
        // It keeps its number until all have moved, so that no new place is another's old one.
        let whole = std::mem::replace(&mut self.chunks[number], Chunk::new(disk));
        self.by_age.remove(&(disk, whole.lowest, number));
        self.used_bytes -= whole.used_bytes();
        self.hole_bytes -= whole.hole_bytes();
        let mut count = 0;
        for at in whole.places() {
            let record = whole.record(at);
            let there = self.append(disk, record.bytes(), CHUNKS_MAX + 1);
            debug_assert!(there.is_some(), "one chunk more is left");
            if let Some(there) = there {
                moved(record.key(), place(number, at), there);
            }
            count += 1;
        }
        self.chunks.remove(number);
        Some(count)
    }

    /// Bytes of chunks, with holes.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Panics unless all is counted, and chunks stand where they belong.
    pub(crate) fn check(&self) {
        self.chunks.check();
        let (mut used_bytes, mut hole_bytes) = (0, 0);
        let mut records: BTreeMap<u32, usize> = BTreeMap::new();
        for (number, chunk) in self.chunks.iter() {
            chunk.check();
            assert!(chunk.places().next().is_some(), "no chunk is empty");
            (used_bytes, hole_bytes) =
                (used_bytes + chunk.used_bytes(), hole_bytes + chunk.hole_bytes());
            *records.entry(chunk.disk).or_default() += chunk.places().count();
            assert!(self.by_age.contains(&(chunk.disk, chunk.lowest, number)));
            let is_open = self.disks.get(&chunk.disk).is_some_and(|of| of.open == number);
            let waste = (waste_of(chunk), number);
            assert_eq!(self.by_waste.contains(&waste), waste.0 > 0 && !is_open);
        }
        assert_eq!((used_bytes, hole_bytes), (self.used_bytes, self.hole_bytes));
        assert_eq!(self.by_age.len(), self.chunks.len());
        assert!(self.by_waste.len() <= self.chunks.len());
        assert_eq!(records.values().sum::<usize>(), self.len);
        for (disk, of) in &self.disks {
            assert_eq!(records.remove(disk).unwrap_or_default(), of.records, "{disk}");
            assert!(of.open == NONE || self.chunks.get(of.open).is_some_and(|it| it.disk == *disk));
        }
        assert!(records.is_empty(), "each record is of a known disk");
        self.writers.check(self.iter().map(|(_, record)| record.writer()));
    }

    fn count(&mut self, disk: u32) {
        self.len += 1;
        self.of(disk).records += 1;
    }

    fn of(&mut self, disk: u32) -> &mut OfDisk {
        self.disks.entry(disk).or_insert(OfDisk { open: NONE, records: 0 })
    }

    /// Writes a record behind the last one of its disk, if that takes no more chunks than `most`.
    fn append(&mut self, disk: u32, record: &[u8], most: usize) -> Option<u32> {
        let open = self.of(disk).open;
        let number = match self.chunks.get(open).is_some_and(|chunk| chunk.has_room(record.len())) {
            true => open,
            false if self.chunks.len() < most => self.open_chunk(disk, open),
            false => return None,
        };
        let chunk = &mut self.chunks[number];
        let before = chunk.used_bytes();
        let at = chunk.push(record);
        self.used_bytes += chunk.used_bytes() - before;
        let sequence = chunk.record(at).sequence();
        if sequence < chunk.lowest {
            self.set_lowest(number, sequence);
        }
        Some(place(number, at))
    }

    fn open_chunk(&mut self, disk: u32, closed: u32) -> u32 {
        let number = self.chunks.insert(Chunk::new(disk));
        self.by_age.insert((disk, u32::MAX, number));
        self.of(disk).open = number;
        if closed != NONE {
            self.note_waste(closed);
        }
        number
    }

    fn set_lowest(&mut self, number: u32, lowest: u32) {
        let chunk = &mut self.chunks[number];
        let before = std::mem::replace(&mut chunk.lowest, lowest);
        self.by_age.remove(&(chunk.disk, before, number));
        self.by_age.insert((chunk.disk, lowest, number));
    }

    /// A chunk has more holes now, or was closed. One without records is forgotten.
    fn note_waste(&mut self, number: u32) {
        let chunk = &mut self.chunks[number];
        let (disk, lowest, waste) = (chunk.disk, chunk.lowest, waste_of(chunk));
        let listed = std::mem::replace(&mut chunk.listed_waste, waste);
        let is_empty = chunk.is_empty();
        let is_open = self.disks.get(&disk).is_some_and(|of| of.open == number);
        if listed != waste || is_empty {
            self.by_waste.remove(&(listed, number));
        }
        if !is_empty {
            if waste > 0 && !is_open {
                self.by_waste.insert((waste, number));
            }
            return;
        }
        self.by_age.remove(&(disk, lowest, number));
        if let Some(gone) = self.chunks.remove(number) {
            self.used_bytes -= gone.used_bytes();
            self.hole_bytes -= gone.hole_bytes();
        }
        if let Some(of) = self.disks.get_mut(&disk) {
            if of.open == number {
                of.open = NONE;
            }
            if of.records == 0 {
                self.disks.remove(&disk);
            }
        }
    }
}

fn waste_of(chunk: &Chunk) -> usize {
    chunk.hole_bytes() * WASTE_PARTS / CHUNK_BYTES
}

fn place(chunk: u32, at: u32) -> u32 {
    chunk << UNIT_BITS | at
}

fn split(place: u32) -> (u32, u32) {
    (place >> UNIT_BITS, place & ((1 << UNIT_BITS) - 1))
}

#[cfg(test)]
mod tests;
