//! A batch on the rails: what completes is noted in the batch, what the rails cannot do goes over TCP while there is time.
//! Invariant: each piece ends once, by the rails or by TCP; a write goes over TCP only when nothing of it can land any more
//! over rails.

use crate::batch::Batch;
use crate::error::EngineError;
use crate::fallback::Fallback;
use crate::request::Direction;
use crate::slice::{Piece, RequestSlice};
use perigee_rails::{RailError, Sink};
use perigee_rdma::{Done, PeerRails, Rdma, peer_error};
use perigee_shard::monotonic;
use std::sync::Arc;

/// The pieces of a batch on the rails; a piece's tag is its place in the list.
#[derive(Debug)]
pub(crate) struct RailBatch {
    pub(crate) batch: Arc<Batch>,
    pub(crate) pieces: Vec<(Direction, Piece)>,
    pub(crate) fallback: Fallback,
    pub(crate) rdma: Arc<Rdma>,
    /// Where the peer's leases are asked for.
    pub(crate) endpoint: Arc<str>,
    /// Held so that the leases are renewed as long as the batch lasts.
    pub(crate) _lease: Arc<PeerRails>,
}

impl RailBatch {
    /// All pieces go over TCP.
    pub(crate) fn divert_all(&self) {
        let slices = self
            .pieces
            .iter()
            .map(|(direction, piece)| slice(&self.batch, *direction, *piece));
        self.fallback.divert_all(slices);
    }

    fn may_divert(&self, error: &RailError) -> bool {
        let lasting = matches!(
            error,
            RailError::Canceled | RailError::Closed | RailError::PeerRestarted { .. }
        );
        !lasting && has_time(&self.batch, &self.fallback)
    }

    fn convert(&self, error: &RailError) -> EngineError {
        let peer = self.fallback.target.name();
        peer_error(error, peer, self.fallback.terms.length).into()
    }

    /// Something of a write may still land: the queue pairs at the peer are taken down first. Their end is confirmed, or is
    /// not, after the orders that wait before this one; each has its own bound, which may be later than the batch's.
    fn fence(&self, direction: Direction, piece: Piece, error: EngineError) {
        let (batch, fallback) = (self.batch.clone(), self.fallback.clone());
        let done = Done::new(move |is_fenced| match is_fenced {
            true if has_time(&batch, &fallback) => {
                fallback.divert(slice(&batch, direction, piece));
            }
            _ => batch.failed(piece.request, &error),
        });
        self.rdma.fence(&self.endpoint, done);
    }
}

impl Sink for RailBatch {
    fn finished(&self, tag: u64, outcome: Result<(), RailError>) {
        let Some((direction, piece)) = self.pieces.get(tag as usize) else {
            return;
        };
        match outcome {
            Ok(()) => self.batch.moved(piece.request, piece.bytes),
            Err(error) if self.may_divert(&error) => {
                tracing::debug!(%error, "A piece goes over TCP instead of RDMA");
                match error {
                    RailError::Unfenced { .. } => {
                        self.fence(*direction, *piece, self.convert(&error));
                    }
                    _ => self.fallback.divert(slice(&self.batch, *direction, *piece)),
                }
            }
            Err(error) => self.batch.failed(piece.request, &self.convert(&error)),
        }
    }
}

fn slice(batch: &Arc<Batch>, direction: Direction, piece: Piece) -> RequestSlice {
    RequestSlice::new(direction, vec![piece], batch.clone())
}

fn has_time(batch: &Batch, fallback: &Fallback) -> bool {
    !batch.is_canceled() && monotonic() < fallback.terms.due
}
