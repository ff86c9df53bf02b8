//! A batch on the rails: what completes is noted in the batch, what the rails cannot do goes over
//! TCP while there is time.
//! Invariant: each piece ends once, by the rails or by TCP; a write goes over TCP only when nothing
//! of it can land any more over rails.

use super::loose_pieces::LoosePieces;
use crate::batch::Batch;
use crate::error::EngineError;
use crate::fallback::Fallback;
use crate::request::Direction;
use crate::request_piece::RequestPiece;
use perigee_activity::Request;
use perigee_rails::{RailError, Sink};
use perigee_rdma::{PeerRails, Rdma, peer_error};
use std::sync::Arc;

/// The pieces of a batch on the rails; a piece's tag is its place in the list.
#[derive(Debug)]
pub(crate) struct RailBatch {
    batch: Arc<Batch>,
    pieces: Vec<(Direction, RequestPiece)>,
    fallback: Fallback,
    loose: Arc<LoosePieces>,
    /// Held so that the leases are renewed as long as the batch lasts.
    _lease: Arc<PeerRails>,
}

impl RailBatch {
    /// Pieces for a peer, whose leases are asked for at `endpoint`.
    pub(crate) fn new(
        batch: &Arc<Batch>,
        pieces: Vec<(Direction, RequestPiece)>,
        fallback: Fallback,
        rdma: &Arc<Rdma>,
        (endpoint, lease): (&Arc<str>, &Arc<PeerRails>),
    ) -> Self {
        Self {
            loose: LoosePieces::new(batch, &fallback, rdma, endpoint.clone()),
            batch: batch.clone(),
            pieces,
            fallback,
            _lease: lease.clone(),
        }
    }

    /// All pieces go over TCP.
    pub(crate) fn divert_all(&self) {
        self.divert(&self.pieces);
    }

    fn divert(&self, pieces: &[(Direction, RequestPiece)]) {
        let pieces = pieces.iter().copied();
        self.fallback.divert_pieces(&self.batch, pieces);
    }

    fn may_divert(&self, error: &RailError) -> bool {
        let lasting = matches!(
            error,
            RailError::Canceled | RailError::Closed | RailError::PeerRestarted { .. }
        );
        !lasting && self.fallback.has_time(&self.batch)
    }

    fn convert(&self, error: &RailError) -> EngineError {
        let peer = self.fallback.target.name();
        peer_error(error, peer, self.fallback.terms.length).into()
    }
}

impl Sink for RailBatch {
    fn traced(&self) -> Option<&Request> {
        self.batch.traced()
    }

    fn finished(&self, tag: u64, outcome: Result<(), RailError>) {
        debug_assert!((tag as usize) < self.pieces.len(), "a tag is the place of a piece");
        let Some(asked @ (direction, piece)) = self.pieces.get(tag as usize) else {
            return;
        };
        match outcome {
            Ok(()) => self.batch.moved(piece.request, piece.bytes),
            Err(error) if self.may_divert(&error) => {
                tracing::debug!(%error, "A piece goes over TCP instead of RDMA");
                match error {
                    RailError::Unfenced { .. } => {
                        let error = self.convert(&error);
                        self.loose.add(*direction, *piece, error);
                    }
                    _ => self.divert(std::slice::from_ref(asked)),
                }
            }
            Err(error) => self.batch.failed(piece.request, &self.convert(&error)),
        }
    }
}
