//! A slice: pieces of requests that travel to one target in one exchange. Dropping one fails what
//! it carries.

use crate::batch::Batch;
use crate::error::EngineError;
use crate::request::Direction;
use crate::request_piece::{RequestPiece, moved};
use perigee_activity::Request;
use perigee_device::DeviceStage;
use perigee_memory::ByteRangeMut;
use perigee_mover::{
    BatchState, Exchanged, Moved, PeerError, Piece, Reply, RouteCounters, Scope, Slice, SliceHeader,
};
use perigee_schemas::Status;
use std::sync::Arc;

/// Pieces of one batch and direction that travel together.
#[derive(Debug)]
pub(crate) struct RequestSlice {
    pub(crate) direction: Direction,
    pub(crate) pieces: Vec<RequestPiece>,
    batch: Arc<Batch>,
    /// Host memory that the pieces on a device go through; those have its addresses until the batch
    /// ends.
    stage: Option<DeviceStage>,
}

impl RequestSlice {
    pub(crate) fn new(direction: Direction, pieces: Vec<RequestPiece>, batch: Arc<Batch>) -> Self {
        Self { direction, pieces, batch, stage: None }
    }

    /// To be called before its local memory is touched: pieces on a device get host memory, with
    /// their bytes if they are to be written. Only slices under way have some: a batch may be
    /// larger than the memory of the host.
    pub(crate) fn stage(&mut self) -> Result<(), String> {
        let Some(devices) = self.batch.devices().filter(|_| self.stage.is_none()) else {
            return Ok(());
        };
        let on_device = |piece: &&mut RequestPiece| devices.0.holds(piece.local);
        let mut pieces: Vec<&mut RequestPiece> = self.pieces.iter_mut().filter(on_device).collect();
        if pieces.is_empty() {
            return Ok(());
        }
        let ranges = pieces.iter().map(|piece| (piece.local, piece.bytes));
        let stage = DeviceStage::new(devices, ranges)?;
        if self.direction == Direction::Write {
            stage.load()?;
        }
        for (piece, place) in pieces.iter_mut().zip(stage.places()) {
            piece.local = place;
        }
        self.stage = Some(stage);
        Ok(())
    }

    /// Gives the host memory back, for a slice that goes another way later.
    pub(crate) fn unstage(&mut self) {
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

    /// What it carries.
    pub(crate) fn moved(&self) -> Moved {
        moved(&self.pieces)
    }

    /// Everything it carries is in place.
    pub(crate) fn complete(mut self, counters: &RouteCounters) {
        let pieces = std::mem::take(&mut self.pieces);
        self.arrived(&pieces, counters);
    }

    /// Counted before it reports to the batch, so that its caller finds it counted.
    fn arrived(&self, pieces: &[RequestPiece], counters: &RouteCounters) {
        counters.landed(self.direction, moved(pieces));
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

    /// The bytes of a piece have arrived at the other side, or here: then they go on to the device
    /// if they must.
    fn land(&self, piece: &RequestPiece) -> Result<(), String> {
        let stage = self.stage.as_ref();
        let stage = stage.filter(|stage| {
            self.direction == Direction::Read && stage.origin(piece.local).is_some()
        });
        stage.map_or(Ok(()), |stage| stage.store(piece.local, piece.bytes))
    }

    /// Everything it carries failed, on another route than TCP.
    pub(crate) fn give_up(mut self, error: &EngineError) {
        self.fail_in_place(error);
    }

    fn fail_in_place(&mut self, error: &EngineError) {
        for piece in std::mem::take(&mut self.pieces) {
            self.batch.failed(piece.request, error);
        }
    }
}

// SAFETY: the submitter of a batch keeps its local ranges valid until it is over, and it is not
// over before each of its slices has reported; a stage lives as long as its slice.
unsafe impl Slice for RequestSlice {
    fn header(&self) -> SliceHeader {
        SliceHeader { direction: self.direction, scope: Scope::Registered }
    }

    fn pieces(&self) -> impl ExactSizeIterator<Item = Piece> + DoubleEndedIterator {
        self.pieces.iter().map(|piece| Piece::new(piece.remote, piece.bytes))
    }

    fn memory(&self, piece: usize) -> impl Iterator<Item = ByteRangeMut> {
        let RequestPiece { local, bytes, .. } = self.pieces[piece];
        std::iter::once(ByteRangeMut::at(local, bytes))
    }

    fn checksums(&self) -> Vec<u32> {
        // SAFETY: the submitter of the batch keeps its local ranges valid until it is over, and it
        // is not over before this slice has reported.
        self.pieces.iter().map(|piece| unsafe { piece.sum() }).collect()
    }

    fn prepare(&mut self) -> Result<(), PeerError> {
        self.stage().map_err(PeerError::Memory)
    }

    fn batch_state(&self) -> BatchState {
        let number = Arc::as_ptr(&self.batch) as usize;
        BatchState { number, is_canceled: self.batch.is_canceled() }
    }

    fn traced(&self) -> Option<&Request> {
        self.batch.traced()
    }

    /// Takes the peer's answer, piece by piece.
    fn settle(mut self, reply: &Reply, exchanged: &Exchanged<'_>) {
        let summed = self.direction == Direction::Read && !reply.checksum.is_empty();
        if reply.is_fine() && !summed {
            return self.complete(exchanged.counters);
        }
        let pieces = std::mem::take(&mut self.pieces);
        assert_eq!(pieces.len(), reply.status.len(), "a status for each piece");
        for (index, (piece, status)) in pieces.iter().zip(&reply.status).enumerate() {
            // SAFETY: as in `checksums`.
            let sum = summed.then(|| unsafe { piece.sum() });
            let damaged = summed && reply.checksum.get(index) != sum.as_ref();
            let status = match *status {
                Status::Ok if damaged => Status::ChecksumMismatch,
                status => status,
            };
            match status {
                Status::Ok => self.arrived(std::slice::from_ref(piece), exchanged.counters),
                status => {
                    let error = piece.refusal(exchanged.peer, status);
                    self.batch.failed(piece.request, &error);
                }
            }
        }
    }

    fn fail(mut self, error: &PeerError) {
        self.fail_in_place(&error.clone().into());
    }

    fn bytes(&self) -> u64 {
        self.moved().bytes
    }
}

impl Drop for RequestSlice {
    fn drop(&mut self) {
        self.fail_in_place(&EngineError::Closed);
    }
}
