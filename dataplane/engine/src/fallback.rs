//! Where slices go that a faster route gives back: over TCP, while there is time.

use crate::batch::Batch;
use crate::request::Direction;
use crate::request_piece::RequestPiece;
use crate::slice::RequestSlice;
use crate::target::PeerSegment;
use perigee_mover::{Shards, SliceOrder, Terms};
use perigee_shard::monotonic;
use std::sync::Arc;

/// The way over TCP for slices of one batch.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    pub(crate) shards: Arc<Shards<RequestSlice>>,
    pub(crate) target: Arc<PeerSegment>,
    pub(crate) terms: Terms,
}

impl Fallback {
    /// Sends a slice over TCP.
    pub(crate) fn divert(&self, slice: RequestSlice) {
        self.divert_all(std::iter::once(slice));
    }

    /// Sends pieces of a batch over TCP, each in a slice of its own.
    pub(crate) fn divert_pieces(
        &self,
        batch: &Arc<Batch>,
        pieces: impl Iterator<Item = (Direction, RequestPiece)>,
    ) {
        let slice = |(direction, piece)| RequestSlice::new(direction, vec![piece], batch.clone());
        self.divert_all(pieces.map(slice));
    }

    /// Whether anything of a batch may still go over TCP.
    pub(crate) fn has_time(&self, batch: &Batch) -> bool {
        !batch.is_canceled() && monotonic() < self.terms.due
    }

    /// Sends slices over TCP.
    pub(crate) fn divert_all(&self, slices: impl Iterator<Item = RequestSlice>) {
        let order =
            |slice| SliceOrder { target: self.target.tcp.clone(), slice, terms: self.terms };
        self.shards.submit(slices.map(order));
    }
}
