//! Memory of one engine and what it must hold, byte by byte.
//! Invariant: a byte is compared unless a write to it is under way or has failed and may still
//! arrive.

use perigee_memory::HostBuffer;
use std::ops::Range;

/// Memory that peers write to.
pub(super) struct Memory {
    buffer: HostBuffer,
    expected: Vec<u8>,
    /// Bytes that a write which failed may still change.
    is_tainted: Vec<bool>,
    /// How many requests write or read a byte at present, writers counted as many.
    holds: Vec<u32>,
}

/// What a writer holds a byte with, so that neither readers nor other writers get it.
const WRITER: u32 = 1 << 16;

impl Memory {
    pub(super) fn new(bytes: usize) -> Result<Self, String> {
        Ok(Self {
            buffer: HostBuffer::allocate(bytes).map_err(|error| error.to_string())?,
            expected: vec![0; bytes],
            is_tainted: vec![false; bytes],
            holds: vec![0; bytes],
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.buffer.base() as u64
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let bytes = self.expected.len();
        // SAFETY: the buffer has that many bytes, and all that writes there runs on this thread, at
        // no time while the slice is borrowed.
        unsafe { std::slice::from_raw_parts(self.buffer.base(), bytes) }
    }

    /// Fills an unused range, and expects it to stay so.
    pub(super) fn fill(&mut self, range: Range<usize>, byte: u8) {
        let target = self.buffer.base().wrapping_add(range.start);
        // SAFETY: the range lies in the buffer: the slice below is cut by it and would fail
        // otherwise.
        unsafe { std::ptr::write_bytes(target, byte, self.expected[range.clone()].len()) };
        self.expected[range].fill(byte);
    }

    /// Everything as in a process that has just begun.
    pub(super) fn renew(&mut self) {
        self.fill(0..self.expected.len(), 0);
        self.is_tainted.fill(false);
        self.holds.fill(0);
    }

    /// Reserves a range for a request, unless others are in the way.
    pub(super) fn hold(&mut self, range: Range<usize>, writes: bool) -> bool {
        let free = |held: &u32| if writes { *held == 0 } else { *held < WRITER };
        let holds = &mut self.holds[range];
        let is_free = holds.iter().all(free);
        if is_free {
            holds.iter_mut().for_each(|held| *held += if writes { WRITER } else { 1 });
        }
        is_free
    }

    pub(super) fn let_go(&mut self, range: Range<usize>, writes: bool) {
        let holds = &mut self.holds[range];
        holds.iter_mut().for_each(|held| *held -= if writes { WRITER } else { 1 });
    }

    /// A write has completed: it must be in place, and stay.
    pub(super) fn written(&mut self, range: Range<usize>, bytes: &[u8]) -> bool {
        let is_sure = |(index, byte): (usize, &u8)| {
            self.is_tainted[range.start + index] || self.bytes()[range.start + index] == *byte
        };
        let is_there = bytes.iter().enumerate().all(is_sure);
        self.expected[range].copy_from_slice(bytes);
        is_there
    }

    /// A write has failed: any part of it may arrive, or not.
    pub(super) fn taint(&mut self, range: Range<usize>) {
        self.is_tainted[range].fill(true);
    }

    /// Whether what was read is what must be there.
    pub(super) fn is_right(&self, range: Range<usize>, read: &[u8]) -> bool {
        let tainted = &self.is_tainted[range.clone()];
        let pairs = self.expected[range].iter().zip(read).zip(tainted);
        pairs.into_iter().all(|((expected, read), tainted)| *tainted || expected == read)
    }

    /// The first byte that has changed though no caller addressed it.
    pub(super) fn first_wrong(&self) -> Option<usize> {
        if self.bytes() == self.expected {
            return None;
        }
        let is_wrong = |index: &usize| {
            let loose = self.is_tainted[*index] || self.holds[*index] >= WRITER;
            !loose && self.bytes()[*index] != self.expected[*index]
        };
        (0..self.expected.len()).find(is_wrong)
    }
}
