//! A slice: pieces of one segment that travel in one exchange on one connection.

use super::batch::Batch;
use super::plan::Memory;
use crate::error::TransferError;
use crate::extent::footer;
use crate::wire::{Direction, Piece};
use perigee_memory::copy::checksum_pieces;
use perigee_memory::limits::BLOCK_BYTES;
use perigee_schemas::{Identity, Status};
use perigee_shard::Message;
use std::ops::Range;
use std::sync::Arc;

/// Part of a job that travels with one slice.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Index of the job in its batch.
    pub(crate) job: usize,
    /// Index of the part in its job.
    pub(crate) number: usize,
    /// Payload bytes.
    pub(crate) bytes: u64,
    /// Which of the slice's memory ranges hold it.
    pub(crate) memory: Range<usize>,
    /// Which of the slice's pieces belong to it.
    pub(crate) pieces: Range<usize>,
    /// What else is written with the payload.
    pub(crate) trailer: Trailer,
}

/// Footer bytes that a part writes behind its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trailer {
    /// Reads write nothing.
    None,
    /// The whole footer: the part is the whole object.
    Footer {
        /// Payload of the object.
        payload_bytes: u64,
        /// Its generation.
        generation: u64,
    },
    /// Its own block checksums, and the generation if it is the first part.
    Checksums {
        /// The generation, with the first part.
        generation: Option<u64>,
    },
}

/// Pieces of one segment that travel together.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) endpoint: Arc<str>,
    pub(crate) segment: Identity,
    pub(crate) direction: Direction,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) parts: Vec<Part>,
    batch: Option<Arc<Batch>>,
}

impl Slice {
    pub(crate) fn new(endpoint: Arc<str>, segment: Identity, direction: Direction) -> Self {
        let (pieces, memory, parts) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            endpoint,
            segment,
            direction,
            pieces,
            memory,
            parts,
            batch: None,
        }
    }

    /// From now on the batch waits for this slice.
    pub(crate) fn join(&mut self, batch: Arc<Batch>) {
        self.batch = Some(batch);
    }

    /// Appends payload and footers to a message and returns the checksum of each part. The sums are made right before
    /// the bytes are sent, so that sending finds them in the cache.
    pub(crate) fn load(&self, message: &mut Message) -> Vec<u32> {
        let mut checksums = Vec::with_capacity(self.parts.len());
        let mut blocks = Vec::new();
        for part in &self.parts {
            checksums.push(self.checksum(part, &mut blocks));
            self.borrow(part, message);
            match part.trailer {
                Trailer::None => {}
                Trailer::Footer {
                    payload_bytes,
                    generation,
                } => {
                    message.push_owned(footer(payload_bytes, &blocks, generation));
                }
                Trailer::Checksums { generation } => {
                    let mut bytes: Vec<u8> = blocks
                        .iter()
                        .flat_map(|block| block.to_le_bytes())
                        .collect();
                    bytes.extend(
                        generation
                            .iter()
                            .flat_map(|generation| generation.to_le_bytes()),
                    );
                    message.push_owned(bytes);
                }
            }
        }
        checksums
    }

    /// Appends the memory of a part to a message.
    pub(crate) fn borrow(&self, part: &Part, message: &mut Message) {
        for memory in &self.memory[part.memory.clone()] {
            // SAFETY: the caller of the batch keeps its buffers until every slice has reported, and a slice reports only
            // after its operations have completed.
            unsafe { message.push_borrowed(memory.address as *mut u8, memory.bytes) };
        }
    }

    /// CRC-32C of the memory of a part; its blocks go to `blocks`.
    pub(crate) fn checksum(&self, part: &Part, blocks: &mut Vec<u32>) -> u32 {
        let pieces: Vec<_> = self.memory[part.memory.clone()]
            .iter()
            .map(|memory| memory.piece())
            .collect();
        // SAFETY: as in `borrow`, the memory is alive and nobody else writes it during the call.
        unsafe { checksum_pieces(&pieces, BLOCK_BYTES, blocks) }
    }

    /// Reports the verdict on each part and ends the slice.
    pub(crate) fn finish(mut self, verdicts: Vec<Result<u32, Status>>) {
        let endpoint = self.endpoint.clone();
        let verdict = |verdict: Result<u32, Status>| {
            verdict.map_err(|status| match status {
                Status::InvalidReplica => TransferError::Stale,
                status => TransferError::Refused {
                    peer: endpoint.to_string(),
                    status,
                },
            })
        };
        let parts = std::mem::take(&mut self.parts);
        if let Some(batch) = self.batch.take() {
            batch.report(parts.into_iter().zip(verdicts.into_iter().map(verdict)));
        }
    }

    /// Reports the same failure for every part.
    pub(crate) fn fail(mut self, error: &TransferError) {
        self.fail_in_place(error);
    }

    fn fail_in_place(&mut self, error: &TransferError) {
        let parts = std::mem::take(&mut self.parts);
        if let Some(batch) = self.batch.take() {
            batch.report(parts.into_iter().map(|part| (part, Err(error.clone()))));
        }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.fail_in_place(&TransferError::Engine(
            "it was closed during the transfer".to_owned(),
        ));
    }
}
