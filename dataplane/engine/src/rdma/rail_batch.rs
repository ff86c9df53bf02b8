//! A batch on the rails: what completes is told to the batch, what the rails cannot do goes over TCP while there is time.
//! Invariant: each piece ends once, by the rails or by TCP.

use crate::batch::Batch;
use crate::error::EngineError;
use crate::fallback::Fallback;
use crate::request::Direction;
use crate::slice::{Piece, RequestSlice};
use perigee_mover::PeerError;
use perigee_rails::{RailError, Sink};
use perigee_shard::monotonic;
use std::sync::Arc;

/// The pieces of a batch on the rails; a piece's tag is its place in the list.
#[derive(Debug)]
pub(crate) struct RailFlight {
    pub(crate) batch: Arc<Batch>,
    pub(crate) pieces: Vec<(Direction, Piece)>,
    pub(crate) fallback: Fallback,
}

impl RailFlight {
    /// All pieces go over TCP.
    pub(crate) fn divert_all(&self) {
        let slices = self
            .pieces
            .iter()
            .map(|(direction, piece)| self.slice(*direction, *piece));
        self.fallback.divert_all(slices);
    }

    fn slice(&self, direction: Direction, piece: Piece) -> RequestSlice {
        RequestSlice::new(direction, vec![piece], self.batch.clone())
    }

    fn may_divert(&self, error: &RailError) -> bool {
        let lasting = matches!(
            error,
            RailError::Canceled
                | RailError::Closed
                | RailError::PeerRestarted { .. }
                | RailError::Unfenced { .. }
        );
        !lasting && !self.batch.is_canceled() && monotonic() < self.fallback.terms.due
    }

    fn convert(&self, error: RailError) -> EngineError {
        let peer = self.fallback.target.name().to_string();
        match error {
            RailError::Canceled => EngineError::Canceled,
            RailError::Closed => EngineError::Closed,
            RailError::PeerRestarted { .. } => EngineError::Peer(PeerError::Restarted { peer }),
            RailError::Deadline { .. } => EngineError::Peer(PeerError::Deadline {
                peer,
                deadline: self.fallback.terms.length,
            }),
            RailError::Unreachable { reason, .. } => {
                EngineError::Peer(PeerError::Unreachable { peer, reason })
            }
            other => EngineError::Peer(PeerError::Broken {
                peer,
                reason: other.to_string(),
            }),
        }
    }
}

impl Sink for RailFlight {
    fn finished(&self, tag: u64, outcome: Result<(), RailError>) {
        let Some((direction, piece)) = self.pieces.get(tag as usize) else {
            return;
        };
        match outcome {
            Ok(()) => self.batch.moved(piece.request, piece.bytes),
            Err(error) if self.may_divert(&error) => {
                tracing::debug!(%error, "A piece goes over TCP instead of RDMA");
                self.fallback.divert(self.slice(*direction, *piece));
            }
            Err(error) => self.batch.failed(piece.request, &self.convert(error)),
        }
    }
}
