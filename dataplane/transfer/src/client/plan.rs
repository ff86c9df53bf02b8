//! Cutting a batch into slices: large objects are split, small ones share a slice, all sizes known
//! before anything moves.

use super::batch::JobBatch;
use super::part::Part;
use super::slice::{ObjectSlice, PlannedPiece};
use super::trailer::Trailer;
use crate::limits::{
    DISK_SLICE_BYTES_MAX, DISK_SLICES_PER_BATCH, SLICE_BYTES_MAX, SLICE_BYTES_MIN, SLICES_PER_BATCH,
};
use crate::place::ReplicaAddress;
use perigee_memory::ByteRangeMut;
use perigee_mover::{Guard, PIECES_MAX, Piece};
use perigee_rdma::Rdma;
use perigee_schemas::Direction;
use perigee_schemas::extent::{
    BLOCK_BYTES, checksum_count, footer_bytes, footer_offset, generation_offset,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a job moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The whole object, written with its footer.
    Write,
    /// Payload from this byte on.
    Read(u64),
    /// The block checksums of the footer.
    ReadChecksums,
}

/// One transfer of a batch.
#[derive(Clone, Debug)]
pub(crate) struct FarJob {
    pub(crate) place: ReplicaAddress,
    pub(crate) content: Content,
    pub(crate) memory: Vec<ByteRangeMut>,
}

impl FarJob {
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.iter().map(|range| range.bytes()).sum()
    }

    /// What a read asks of the segment, and the word that it needs to find; `None` of a write.
    pub(crate) fn read_piece(&self) -> Option<(Piece, Guard)> {
        if self.content == Content::Write {
            return None;
        }
        let (pieces, _) = part_pieces(self, 0, self.bytes());
        debug_assert_eq!(pieces.len(), 1, "a read has one range");
        Some((pieces.into_iter().next()?, guard(&self.place)))
    }
}

/// A batch and its slices, ready to be submitted.
#[derive(Debug)]
pub(crate) struct SlicePlan {
    pub(crate) batch: Arc<JobBatch>,
    pub(crate) slices: Vec<ObjectSlice>,
}

impl SlicePlan {
    /// Cuts a tenant's jobs into slices. Every job's memory has the length of what it moves.
    pub(crate) fn new(jobs: &[FarJob], tenant: &Arc<str>) -> Self {
        let total: u64 = jobs.iter().map(FarJob::bytes).sum();
        let target = |count: u64, most| {
            (total / count).clamp(SLICE_BYTES_MIN, most).next_multiple_of(BLOCK_BYTES)
        };
        let mut planner = Planner {
            target: target(SLICES_PER_BATCH, SLICE_BYTES_MAX),
            disk_target: target(DISK_SLICES_PER_BATCH, DISK_SLICE_BYTES_MAX),
            ..Planner::default()
        };
        let parts: Vec<usize> =
            jobs.iter().enumerate().map(|(index, job)| planner.add(index, job)).collect();
        let mut slices = planner.finished;
        slices.extend(planner.open.into_values());
        let planned: usize = slices.iter().map(|slice| slice.parts.len()).sum();
        assert_eq!(planned, parts.iter().sum::<usize>(), "each part travels in one slice");
        let batch = Arc::new(JobBatch::new(&parts, slices.len(), tenant));
        for slice in &mut slices {
            slice.join(batch.clone());
        }
        Self { batch, slices }
    }

    /// The owners may stage what is read, which is read over these rails then.
    pub(crate) fn read_over(mut self, rdma: &Arc<Rdma>) -> Self {
        self.slices.iter_mut().for_each(|slice| slice.read_over(rdma));
        self
    }
}

#[derive(Default)]
struct Planner {
    /// Payload bytes of a slice.
    target: u64,
    /// The same where a disk is read.
    disk_target: u64,
    /// In the order of their keys: the same jobs give the same slices in the same order.
    open: BTreeMap<(u128, bool), ObjectSlice>,
    finished: Vec<ObjectSlice>,
    open_bytes: HashMap<(u128, bool), u64>,
}

impl Planner {
    /// Plans one job; returns its number of parts.
    fn add(&mut self, index: usize, job: &FarJob) -> usize {
        let total = job.bytes();
        let mut rest = MemoryCursor::new(&job.memory);
        let mut start = 0;
        let mut number = 0;
        while start < total || number == 0 {
            let bytes = self.target_of(job).min(total - start);
            self.add_part(index, number, job, start, bytes, &mut rest);
            start += bytes;
            number += 1;
        }
        debug_assert!(start == total && rest.is_empty(), "the parts cover the job once");
        number
    }

    fn target_of(&self, job: &FarJob) -> u64 {
        if job.place.is_in_memory() { self.target } else { self.disk_target }
    }

    fn add_part(
        &mut self,
        job_index: usize,
        number: usize,
        job: &FarJob,
        start: u64,
        bytes: u64,
        memory: &mut MemoryCursor<'_>,
    ) {
        let (memory, target) = (memory.take(bytes), self.target_of(job));
        let (pieces, trailer) = part_pieces(job, start, bytes);
        let guard = guard(&job.place);
        let write = job.content == Content::Write;
        let key = (job.place.segment.id.0, write);
        let slice = self.open.entry(key).or_insert_with(|| new_slice(job, write));
        let mut bytes_open = self.open_bytes.get(&key).copied().unwrap_or(0);
        // One range of memory is kept free for the frame, and two for the footers of the part.
        let ranges = slice.memory.len() + slice.parts.len() + memory.len() + 3;
        let full = slice.pieces.len() + pieces.len() > PIECES_MAX
            || ranges > PIECES_MAX
            || bytes_open + bytes > target;
        if full && !slice.parts.is_empty() {
            let finished = std::mem::replace(slice, new_slice(job, write));
            self.finished.push(finished);
            bytes_open = 0;
        }
        let slice = self.open.entry(key).or_insert_with(|| new_slice(job, write));
        debug_assert_eq!(memory.iter().map(|range| range.bytes()).sum::<u64>(), bytes);
        let memory_range = slice.memory.len()..slice.memory.len() + memory.len();
        let piece_range = slice.pieces.len()..slice.pieces.len() + pieces.len();
        slice.memory.extend(memory);
        for (index, remote) in pieces.into_iter().enumerate() {
            let memory = match index {
                0 => memory_range.clone(),
                _ => slice.trailer_memory(),
            };
            slice.pieces.push(PlannedPiece { remote, guard, memory });
        }
        slice.parts.push(Part {
            job: job_index,
            number,
            bytes,
            memory: memory_range,
            pieces: piece_range,
            trailer,
        });
        debug_assert!(slice.pieces.len() <= PIECES_MAX, "the owner takes no more");
        self.open_bytes.insert(key, bytes_open + bytes);
    }
}

fn new_slice(job: &FarJob, write: bool) -> ObjectSlice {
    let direction = if write { Direction::Write } else { Direction::Read };
    ObjectSlice::new(
        Arc::from(job.place.segment.endpoint.as_str()),
        job.place.segment.id,
        direction,
    )
}

/// The word that tells whether a place still holds the object.
fn guard(place: &ReplicaAddress) -> Guard {
    let word = place.offset + generation_offset(place.payload_bytes);
    Guard::new(word, place.generation)
}

/// The ranges of the segment that a part touches, and what its writer adds.
fn part_pieces(job: &FarJob, start: u64, bytes: u64) -> (Vec<Piece>, Trailer) {
    let place = &job.place;
    let payload = place.payload_bytes;
    let piece = |offset: u64, bytes: u64| Piece::new(place.offset + offset, bytes);
    match job.content {
        Content::Read(first) => (vec![piece(first + start, bytes)], Trailer::None),
        Content::ReadChecksums => {
            (vec![piece(footer_offset(payload) + start, bytes)], Trailer::None)
        }
        Content::Write if bytes == payload => {
            let pieces =
                vec![piece(0, bytes), piece(footer_offset(payload), footer_bytes(payload))];
            (pieces, Trailer::Footer { payload_bytes: payload, generation: place.generation })
        }
        Content::Write => {
            let block = start / BLOCK_BYTES;
            let checksums = piece(footer_offset(payload) + block * 4, checksum_count(bytes) * 4);
            let mut pieces = vec![piece(start, bytes), checksums];
            let generation = (start == 0).then_some(place.generation);
            if generation.is_some() {
                pieces.push(piece(generation_offset(payload), 8));
            }
            (pieces, Trailer::Checksums { generation })
        }
    }
}

/// Takes ranges off the front of a list of memory.
struct MemoryCursor<'a> {
    memory: &'a [ByteRangeMut],
    used: u64,
}

impl<'a> MemoryCursor<'a> {
    fn new(memory: &'a [ByteRangeMut]) -> Self {
        Self { memory, used: 0 }
    }

    /// Whether nothing is left.
    fn is_empty(&self) -> bool {
        self.memory.iter().all(|range| range.len == 0)
    }

    fn take(&mut self, mut bytes: u64) -> Vec<ByteRangeMut> {
        let mut taken = Vec::new();
        while bytes > 0 {
            let Some(first) = self.memory.first() else {
                break;
            };
            let length = (first.bytes() - self.used).min(bytes);
            if length > 0 {
                taken.push(ByteRangeMut::at(first.address() + self.used, length));
            }
            self.used += length;
            bytes -= length;
            if self.used == first.bytes() {
                self.memory = &self.memory[1..];
                self.used = 0;
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests;
