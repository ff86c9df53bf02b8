//! A slice: pieces of requests that travel to one target in one exchange. Dropping one fails what it carries.

use crate::account::Moved;
use crate::batch::Batch;
use crate::counters::Counters;
use crate::error::EngineError;
use crate::request::Direction;
use crate::wire;
use perigee_device::Stage;
use perigee_memory::checksum::crc32c_raw;
use perigee_schemas::Status;
use std::sync::Arc;

/// One contiguous part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Number of the request in its batch.
    pub(crate) request: u32,
    pub(crate) local: u64,
    pub(crate) remote: u64,
    pub(crate) bytes: u64,
    /// Whether it is the first of its request.
    pub(crate) is_first: bool,
}

/// Pieces of one batch and direction that travel together.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) direction: Direction,
    pub(crate) pieces: Vec<Piece>,
    batch: Arc<Batch>,
    /// Host memory that the pieces on a device go through; those have its addresses meanwhile.
    stage: Option<Stage>,
}

impl Slice {
    pub(crate) fn new(direction: Direction, pieces: Vec<Piece>, batch: Arc<Batch>) -> Self {
        Self {
            direction,
            pieces,
            batch,
            stage: None,
        }
    }

    /// To be called before its local memory is touched: pieces on a device get host memory, with their bytes if they are to
    /// be written. Only slices under way have some: a batch may be larger than the memory of the host.
    pub(crate) fn embark(&mut self) -> Result<(), EngineError> {
        let Some(devices) = self.batch.devices().filter(|_| self.stage.is_none()) else {
            return Ok(());
        };
        let on_device = |piece: &&mut Piece| devices.0.holds(piece.local);
        let mut pieces: Vec<&mut Piece> = self.pieces.iter_mut().filter(on_device).collect();
        if pieces.is_empty() {
            return Ok(());
        }
        let ranges = pieces.iter().map(|piece| (piece.local, piece.bytes));
        let stage = Stage::new(devices, ranges).map_err(EngineError::Memory)?;
        if self.direction == Direction::Write {
            stage.load().map_err(EngineError::Memory)?;
        }
        for (piece, place) in pieces.iter_mut().zip(stage.places()) {
            piece.local = place;
        }
        self.stage = Some(stage);
        Ok(())
    }

    /// Gives the host memory back, for a slice that goes another way later.
    pub(crate) fn disembark(&mut self) {
        let Some(stage) = self.stage.take() else {
            return;
        };
        for piece in &mut self.pieces {
            piece.local = stage.origin(piece.local).unwrap_or(piece.local);
        }
    }

    /// The batch it belongs to.
    pub(crate) fn batch(&self) -> &Arc<Batch> {
        &self.batch
    }

    /// Payload bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// CRC-32C of the local bytes of each piece.
    pub(crate) fn checksums(&self) -> Vec<u32> {
        let sum = |piece: &Piece| {
            // SAFETY: whoever submitted the batch keeps its local ranges valid until it is over, and it is not over
            // before this slice has reported.
            unsafe { crc32c_raw(piece.local as *const u8, piece.bytes as usize) }
        };
        self.pieces.iter().map(sum).collect()
    }

    /// Takes the peer's answer. Gives back the pieces that are fine but were not moved because others of the same read
    /// were refused.
    pub(crate) fn settle(
        mut self,
        peer: &str,
        reply: &wire::Reply,
        counters: &Arc<Counters>,
    ) -> Option<Slice> {
        let all_fine = reply.status.iter().all(|status| *status == Status::Ok);
        let sums_wanted = !reply.checksum.is_empty() && self.direction == Direction::Read;
        if all_fine && !sums_wanted {
            self.complete(counters);
            return None;
        }
        let pieces = std::mem::take(&mut self.pieces);
        let origin = |piece: &Piece| self.stage.as_ref()?.origin(piece.local);
        let mut again = Vec::new();
        for (index, (piece, status)) in pieces.iter().zip(&reply.status).enumerate() {
            match *status {
                Status::Ok if self.direction == Direction::Read && !all_fine => {
                    again.push(Piece {
                        local: origin(piece).unwrap_or(piece.local),
                        ..*piece
                    });
                }
                Status::Ok if sums_wanted && !self.matches(piece, reply.checksum.get(index)) => {
                    self.batch.failed(piece.request, &damaged(peer));
                }
                Status::Ok => self.arrived(std::slice::from_ref(piece), counters),
                status => self
                    .batch
                    .failed(piece.request, &refusal(peer, piece, status)),
            }
        }
        (!again.is_empty()).then(|| Slice::new(self.direction, again, self.batch.clone()))
    }

    /// Everything it carries is in place.
    pub(crate) fn complete(mut self, counters: &Arc<Counters>) {
        let pieces = std::mem::take(&mut self.pieces);
        self.arrived(&pieces, counters);
    }

    /// Counted before the batch hears of it, so that whoever waited for it finds it counted.
    fn arrived(&self, pieces: &[Piece], counters: &Arc<Counters>) {
        let mut moved = Moved::default();
        for piece in pieces {
            moved.operations += u64::from(piece.is_first);
            moved.bytes += piece.bytes;
        }
        counters.landed(self.direction, moved);
        let accounts = self.batch.accounts();
        accounts.landed(counters, self.direction, moved);
        for piece in pieces {
            match self.land(piece) {
                Ok(()) => self.batch.moved(piece.request, piece.bytes),
                Err(reason) => {
                    let error = EngineError::Memory(reason);
                    self.batch.failed(piece.request, &error);
                }
            }
        }
    }

    /// The bytes of a piece have arrived at the other side, or here: then they go on to the device if they must.
    fn land(&self, piece: &Piece) -> Result<(), String> {
        let stage = self.stage.as_ref();
        let stage = stage.filter(|stage| {
            self.direction == Direction::Read && stage.origin(piece.local).is_some()
        });
        stage.map_or(Ok(()), |stage| stage.store(piece.local, piece.bytes))
    }

    /// Everything it carries failed.
    pub(crate) fn fail(mut self, error: &EngineError) {
        self.fail_in_place(error);
    }

    fn matches(&self, piece: &Piece, sum: Option<&u32>) -> bool {
        // SAFETY: as in `checksums`.
        let found = unsafe { crc32c_raw(piece.local as *const u8, piece.bytes as usize) };
        sum == Some(&found)
    }

    fn fail_in_place(&mut self, error: &EngineError) {
        for piece in std::mem::take(&mut self.pieces) {
            self.batch.failed(piece.request, error);
        }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.fail_in_place(&EngineError::Closed);
    }
}

fn damaged(peer: &str) -> EngineError {
    EngineError::Damaged {
        peer: peer.to_owned(),
    }
}

fn refusal(peer: &str, piece: &Piece, status: Status) -> EngineError {
    let peer = peer.to_owned();
    match status {
        Status::InvalidParams => EngineError::RemoteAddress {
            peer,
            address: piece.remote,
            bytes: piece.bytes,
        },
        Status::InvalidWrite => EngineError::ReadOnly {
            peer,
            address: piece.remote,
            bytes: piece.bytes,
        },
        Status::InvalidReplica => EngineError::Restarted { peer },
        Status::ChecksumMismatch => EngineError::Damaged { peer },
        status => EngineError::Refused { peer, status },
    }
}
