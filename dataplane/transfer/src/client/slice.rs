//! A slice: pieces of one segment that travel in one exchange. Dropping one fails what it carries.

use super::batch::JobBatch;
use super::part::Part;
use super::staged::{StageTicket, StagedPart, StagedSlice};
use super::trailer::Trailer;
use crate::error::TransferError;
use crate::extent::footer;
use perigee_activity::Request;
use perigee_memory::ByteRangeMut;
use perigee_memory::copy::checksum_pieces;
use perigee_memory::limits::BLOCK_BYTES;
use perigee_mover::{
    BatchState, Exchanged, Guard, PeerError, Piece, Reply, Scope, Slice, SliceHeader,
};
use perigee_rdma::{Rdma, TICKET_LIFE};
use perigee_schemas::{Direction, Identity, Status};
use perigee_shard::monotonic;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// One range of the segment, and the local memory that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct PlannedPiece {
    pub(crate) remote: Piece,
    /// The generation that a read needs to find.
    pub(crate) guard: Guard,
    /// Which ranges of the slice's memory; those of a trailer are there once it is prepared.
    pub(crate) memory: Range<usize>,
}

/// Pieces of one segment that travel together. Objects are checked as a whole, by their readers, so
/// the pieces have no sums of their own.
#[derive(Debug)]
pub(crate) struct ObjectSlice {
    endpoint: Arc<str>,
    segment: Identity,
    direction: Direction,
    pub(super) pieces: Vec<PlannedPiece>,
    pub(super) memory: Vec<ByteRangeMut>,
    pub(super) parts: Vec<Part>,
    /// CRC-32C of each part of a write, and its trailer, once it is prepared.
    sums: Vec<u32>,
    trailers: Vec<Box<[u8]>>,
    /// Over which what its owner stages is read; the caller sums what was read.
    reader: Option<Arc<Rdma>>,
    /// When the owner was asked, or a moment before.
    asked: Duration,
    batch: Option<Arc<JobBatch>>,
}

impl ObjectSlice {
    pub(crate) fn new(endpoint: Arc<str>, segment: Identity, direction: Direction) -> Self {
        Self {
            endpoint,
            segment,
            direction,
            pieces: Vec::new(),
            memory: Vec::new(),
            parts: Vec::new(),
            sums: Vec::new(),
            trailers: Vec::new(),
            reader: None,
            asked: Duration::ZERO,
            batch: None,
        }
    }

    /// From now on the batch waits for this slice.
    pub(crate) fn join(&mut self, batch: Arc<JobBatch>) {
        debug_assert!(self.batch.is_none(), "one batch waits for it");
        self.batch = Some(batch);
    }

    /// Its owner may stage its bytes, which are read over these rails then.
    pub(super) fn read_over(&mut self, rdma: &Arc<Rdma>) {
        debug_assert_eq!(self.direction, Direction::Read);
        self.reader = Some(rdma.clone());
    }

    /// A range of memory for a piece of a trailer, which gets its address when the trailer is made.
    pub(super) fn trailer_memory(&mut self) -> Range<usize> {
        let first = self.memory.len();
        self.memory.push(ByteRangeMut::at(0, 0));
        first..first + 1
    }

    /// `host:port` of the owner.
    pub(crate) fn endpoint(&self) -> &Arc<str> {
        &self.endpoint
    }

    /// Sums a part of a write and makes its trailer, whose bytes lie behind the payload in the
    /// memory of the slice.
    fn seal(&mut self, index: usize, blocks: &mut Vec<u32>) {
        let part = &self.parts[index];
        self.sums.push(self.checksum(part, blocks));
        let trailer: Box<[u8]> = match part.trailer {
            Trailer::None => return,
            Trailer::Footer { payload_bytes, generation } => {
                footer(payload_bytes, blocks, generation).into()
            }
            Trailer::Checksums { generation } => {
                let sums = blocks.iter().flat_map(|block| block.to_le_bytes());
                let generation = generation.iter().flat_map(|word| word.to_le_bytes());
                sums.chain(generation).collect()
            }
        };
        let mut address = trailer.as_ptr() as u64;
        let end = address + trailer.len() as u64;
        // A part has its payload as the first piece, and its trailer as the others.
        for piece in &self.pieces[part.pieces.clone()][1..] {
            let bytes = piece.remote.bytes();
            for range in &mut self.memory[piece.memory.clone()] {
                *range = ByteRangeMut::at(address, bytes);
            }
            address += bytes;
        }
        assert_eq!(address, end, "a trailer fills its pieces");
        self.trailers.push(trailer);
    }

    /// CRC-32C of the memory of a part; its blocks go to `blocks`.
    fn checksum(&self, part: &Part, blocks: &mut Vec<u32>) -> u32 {
        let memory = self.memory[part.memory.clone()].iter();
        let pieces: Vec<_> = memory.map(|range| range.cast_const()).collect();
        // SAFETY: the caller of the batch keeps its buffers, and nothing else writes them, until
        // every slice has reported.
        unsafe { checksum_pieces(&pieces, BLOCK_BYTES, blocks) }
    }

    /// What the peer's answer means for one part: the CRC-32C of what was moved.
    fn verdict(
        &self,
        (index, part): (usize, &Part),
        reply: &Reply,
        peer: &str,
    ) -> Result<u32, TransferError> {
        let mut status = reply.status[part.pieces.clone()].iter();
        match status.find(|status| **status != Status::Ok) {
            None if self.direction == Direction::Write => Ok(self.sums[index]),
            None if self.reader.is_some() => Ok(0),
            None => Ok(self.checksum(part, &mut Vec::new())),
            Some(Status::InvalidReplica) => Err(TransferError::Stale),
            Some(status) => Err(TransferError::Peer(PeerError::Refused {
                peer: peer.to_owned(),
                status: *status,
            })),
        }
    }

    /// What the owner has staged of it.
    fn staged(&self, reply: &Reply) -> Option<StagedSlice> {
        let (rdma, places) = (self.reader.as_ref()?, reply.staged.as_ref()?);
        // A read has one piece for each part.
        let granted = self.parts.iter().filter(|part| {
            reply.status[part.pieces.clone()].iter().all(|status| *status == Status::Ok)
        });
        let parts = granted.map(|part| StagedPart {
            job: part.job,
            address: places.addresses[part.pieces.start],
            bytes: part.bytes,
            memory: self.memory[part.memory.clone()].to_vec(),
        });
        Some(StagedSlice {
            parts: parts.collect(),
            until: self.asked + TICKET_LIFE,
            _ticket: StageTicket::new(rdma, &self.endpoint, places.ticket),
        })
    }

    fn fail_in_place(&mut self, error: &TransferError) {
        let parts = std::mem::take(&mut self.parts);
        if let Some(batch) = self.batch.take() {
            batch.report(parts.into_iter().map(|part| (part, Err(error.clone()))));
        }
    }
}

// SAFETY: the caller of a batch keeps its buffers until every slice has reported; trailers live as
// long as their slice. The planner gives each piece memory of its length.
unsafe impl Slice for ObjectSlice {
    fn header(&self) -> SliceHeader {
        SliceHeader { direction: self.direction, scope: Scope::Segment(self.segment) }
    }

    fn pieces(&self) -> impl ExactSizeIterator<Item = Piece> + DoubleEndedIterator {
        self.pieces.iter().map(|piece| piece.remote)
    }

    /// Space that is written was given to its writer alone, so only reads are guarded.
    fn guards(&self) -> impl ExactSizeIterator<Item = Guard> + DoubleEndedIterator {
        let guarded = match self.direction {
            Direction::Read => self.pieces.as_slice(),
            Direction::Write => &[],
        };
        guarded.iter().map(|piece| piece.guard)
    }

    fn memory(&self, piece: usize) -> impl Iterator<Item = ByteRangeMut> {
        let range = self.pieces[piece].memory.clone();
        self.memory[range].iter().copied()
    }

    /// The sums are made right before the bytes are sent, so that sending finds them in the cache.
    fn prepare(&mut self) -> Result<(), PeerError> {
        if self.direction == Direction::Write && self.sums.is_empty() {
            let mut blocks = Vec::new();
            (0..self.parts.len()).for_each(|part| self.seal(part, &mut blocks));
            debug_assert_eq!(self.sums.len(), self.parts.len());
        }
        if self.reader.is_some() {
            self.asked = monotonic();
        }
        Ok(())
    }

    fn reader(&self) -> Option<u64> {
        self.reader.as_ref().map(|rdma| rdma.engine().epoch())
    }

    fn batch_state(&self) -> BatchState {
        let mark = |batch: &Arc<JobBatch>| BatchState {
            number: Arc::as_ptr(batch) as usize,
            is_canceled: batch.is_canceled(),
        };
        self.batch.as_ref().map(mark).unwrap_or_default()
    }

    fn traced(&self) -> Option<&Request> {
        self.batch.as_ref()?.traced()
    }

    fn tenant(&self) -> &str {
        self.batch.as_ref().map_or("", |batch| batch.tenant())
    }

    /// What was read is summed while it is still in the cache.
    fn settle(mut self, reply: &Reply, exchanged: &Exchanged<'_>) {
        assert_eq!(reply.status.len(), self.pieces.len(), "a status for each piece");
        let staged = self.staged(reply);
        let parts = self.parts.iter().enumerate();
        let verdicts: Vec<_> =
            parts.map(|part| self.verdict(part, reply, exchanged.peer)).collect();
        let parts = std::mem::take(&mut self.parts);
        if let Some(batch) = self.batch.take() {
            staged.into_iter().for_each(|staged| batch.hand_over(staged));
            batch.report(parts.into_iter().zip(verdicts));
        }
    }

    fn fail(mut self, error: &PeerError) {
        self.fail_in_place(&TransferError::Peer(error.clone()));
    }
}

impl Drop for ObjectSlice {
    fn drop(&mut self) {
        self.fail_in_place(&TransferError::Engine("it was closed during the transfer".to_owned()));
    }
}
