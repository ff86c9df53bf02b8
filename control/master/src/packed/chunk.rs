//! Records one behind the other, of one disk.
//! Invariant: each begins at a unit; what is removed stays as a hole until the chunk goes.

use super::record::{self, PackedRecord, UNIT_BYTES};

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: usize = 1 << 16;
/// Bytes that a chunk begins with.
const FIRST_BYTES: usize = 1 << 12;

#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) disk: u32,
    /// No record lies in a segment of the disk's log below this one.
    pub(super) lowest: u32,
    /// Eighths that are holes, as the list of chunks has it.
    pub(super) listed_waste: usize,
    bytes: Vec<u8>,
    hole_bytes: usize,
}

impl Chunk {
    pub(super) fn new(disk: u32) -> Self {
        Self {
            disk,
            lowest: u32::MAX,
            listed_waste: 0,
            bytes: Vec::with_capacity(FIRST_BYTES),
            hole_bytes: 0,
        }
    }

    /// Whether a record of so many bytes fits behind the others.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes.next_multiple_of(UNIT_BYTES) <= CHUNK_BYTES
    }

    /// Adds a record; returns its unit.
    pub(super) fn push(&mut self, record: &[u8]) -> u32 {
        debug_assert!(self.has_room(record.len()), "chunks do not grow beyond their length");
        let at = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.bytes.resize(self.bytes.len().next_multiple_of(UNIT_BYTES), 0);
        (at / UNIT_BYTES) as u32
    }

    /// The record at a unit.
    pub(super) fn record(&self, at: u32) -> PackedRecord<'_> {
        PackedRecord::begins(&self.bytes[at as usize * UNIT_BYTES..])
    }

    pub(super) fn touch(&mut self, at: u32, stamp: u64) {
        record::set_probed(&mut self.bytes[at as usize * UNIT_BYTES..], stamp);
    }

    /// Makes a record a hole; returns how long that is.
    pub(super) fn remove(&mut self, at: u32) -> usize {
        debug_assert!(!self.record(at).is_gone(), "it is removed once");
        let hole = self.record(at).bytes().len().next_multiple_of(UNIT_BYTES);
        record::set_gone(&mut self.bytes[at as usize * UNIT_BYTES..]);
        self.hole_bytes += hole;
        hole
    }

    /// The units of all records that are there.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> + '_ {
        let mut next = 0;
        let all = std::iter::from_fn(move || {
            let at = next;
            let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty())?;
            let record = PackedRecord::begins(rest);
            next += record.bytes().len().next_multiple_of(UNIT_BYTES);
            Some((at, record))
        });
        all.filter(|(_, record)| !record.is_gone()).map(|(at, _)| (at / UNIT_BYTES) as u32)
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn hole_bytes(&self) -> usize {
        self.hole_bytes
    }

    /// Whether nothing but holes is left.
    pub(super) fn is_empty(&self) -> bool {
        self.hole_bytes == self.bytes.len()
    }

    /// Panics unless holes are counted and no record lies below the lowest segment.
    pub(super) fn check(&self) {
        let lengths = self.places().map(|at| self.record(at).bytes().len());
        let kept: usize = lengths.map(|bytes| bytes.next_multiple_of(UNIT_BYTES)).sum();
        assert_eq!(kept + self.hole_bytes, self.bytes.len());
        assert!(self.places().all(|at| self.record(at).sequence() >= self.lowest));
    }
}
