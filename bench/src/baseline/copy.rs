//! Blocks copied on one thread, from random places of one cold memory to random places of another:
//! what a `get` or a `put` does without a store. Invariant: both memories are far larger than the
//! caches, or as large as the caller has asked.

use std::hint::black_box;
use std::time::Instant;

use perigee_memory::checksum::crc32c_raw;
use perigee_memory::copy::{ChecksumCopier, copy_streaming};
use perigee_memory::kernel::Kernel;
use perigee_memory::limits::BLOCK_BYTES;

use crate::baseline::rounds::Driven;
use crate::ends::memory_pair::MemoryPair;
use crate::error::BenchError;
use crate::load::drive::{Step, Worker};
use crate::sample::Places;
use crate::stop::Stop;

/// What is done with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The C library's copy.
    Memcpy,
    /// Stores that pass the caches.
    Streaming,
    /// The copy of the data plane, which sums as it copies, with one kernel.
    Summing(Kernel),
    /// The C library's copy, then a sum: two passes.
    TwoPasses,
    /// A sum without a copy.
    Sum,
}

impl Work {
    /// The name of the work.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memcpy => "cold memcpy",
            Self::Streaming => "streaming copy",
            Self::Summing(Kernel::Avx512) => "copy with sum, AVX-512",
            Self::Summing(Kernel::Avx2) => "copy with sum, AVX2",
            Self::Summing(Kernel::Sse42) => "copy with sum, SSE4.2",
            Self::Summing(Kernel::Portable) => "copy with sum, portable",
            Self::TwoPasses => "memcpy, then sum",
            Self::Sum => "sum",
        }
    }
}

/// Which way blocks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Towards {
    /// From the segment, as a `get`.
    Buffer,
    /// To the segment, as a `put`.
    Segment,
}

/// A thread that copies.
pub(crate) struct Copier<'a> {
    pair: &'a MemoryPair,
    work: Work,
    towards: Towards,
    bytes: usize,
    /// Bytes of each memory that are used.
    room: usize,
    places: Places,
    sums: Vec<u32>,
}

impl<'a> Copier<'a> {
    /// A thread that copies blocks of `bytes` bytes within all of both memories.
    pub(crate) fn new(pair: &'a MemoryPair, work: Work, towards: Towards, bytes: usize) -> Self {
        Self {
            pair,
            work,
            towards,
            bytes,
            room: pair.bytes(),
            places: Places::new(0x9E37_79B9_7F4A_7C15),
            sums: Vec::new(),
        }
    }

    /// The same within the first bytes of each memory, which stay in the caches if they are few.
    #[must_use]
    pub(crate) fn within(mut self, room: usize) -> Self {
        self.room = room.clamp(self.bytes, self.pair.bytes());
        self
    }

    fn place(&mut self, base: *mut u8) -> *mut u8 {
        base.wrapping_add(self.places.offset(self.bytes, self.room))
    }
}

/// Copies as a baseline of blocks of `bytes` bytes.
pub(crate) fn baseline<'a>(
    pair: &'a MemoryPair,
    work: Work,
    towards: Towards,
    bytes: usize,
    stop: &'a Stop,
) -> Driven<'a, Copier<'a>> {
    Driven { name: work.name(), workers: vec![Copier::new(pair, work, towards, bytes)], stop }
}

impl Worker for Copier<'_> {
    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        let (segment, buffer) = (self.pair.segment(), self.pair.buffer());
        let (from, to) = match self.towards {
            Towards::Buffer => (segment, buffer),
            Towards::Segment => (buffer, segment),
        };
        let (from, to, bytes) = (self.place(from), self.place(to), self.bytes);
        let started = Instant::now();
        // SAFETY: places leave room for `bytes` in either memory, the memories are apart, and only
        // this thread uses them.
        unsafe {
            match self.work {
                Work::Memcpy => to.copy_from_nonoverlapping(from, bytes),
                Work::Streaming => {
                    let copied = copy_streaming(to, from, bytes);
                    debug_assert!(copied.is_ok(), "the memories are there");
                }
                Work::Sum => {
                    let _ = black_box(crc32c_raw(from, bytes));
                }
                Work::TwoPasses => {
                    to.copy_from_nonoverlapping(from, bytes);
                    let _ = black_box(crc32c_raw(to, bytes));
                }
                Work::Summing(kernel) => {
                    let copier = ChecksumCopier::new(bytes, BLOCK_BYTES, &mut self.sums);
                    let mut copier = copier.with_kernel(kernel);
                    copier.copy(to, from, bytes);
                    let _ = black_box(copier.finish());
                }
            }
        }
        black_box(to);
        Ok(Step { took: started.elapsed(), units: bytes as u64, corrupt: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_but_a_sum_leaves_equal_memories() {
        let pair = MemoryPair::new(1 << 16).unwrap();
        let all = [Work::Memcpy, Work::Streaming, Work::TwoPasses].into_iter();
        let kernels = Kernel::ALL.into_iter().filter(|kernel| kernel.is_available());
        for work in all.chain(kernels.map(Work::Summing)) {
            // SAFETY: the buffer is this long, and only this thread uses it.
            unsafe { pair.buffer().write_bytes(0, 1 << 16) };
            // A block as long as the memories lies at one place only.
            let mut copier = Copier::new(&pair, work, Towards::Buffer, 1 << 16);
            assert_eq!(copier.step(1).unwrap().units, 1 << 16);
            // SAFETY: both memories are this long, and only this thread uses them.
            let (one, other) = unsafe {
                let one = std::slice::from_raw_parts(pair.segment(), 1 << 16);
                (one, std::slice::from_raw_parts(pair.buffer(), 1 << 16))
            };
            assert!(one == other, "{}", work.name());
        }
    }
}
