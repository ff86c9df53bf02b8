//! Pieces of a batch of which something may still land over rails: they wait until the queue pairs
//! at the peer are down.
//! Invariant: each piece hears once what becomes of it, at the end of the batch's time or when
//! the batch is taken back at the latest; it goes over TCP only after a fence that was ordered
//! after it had become loose.

use crate::batch::Batch;
use crate::error::EngineError;
use crate::fallback::Fallback;
use crate::request::Direction;
use crate::request_piece::RequestPiece;
use perigee_rdma::{Done, Rdma};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A piece, and what is said of it if it cannot be saved.
#[derive(Debug)]
struct LoosePiece {
    direction: Direction,
    piece: RequestPiece,
    error: EngineError,
}

/// The loose pieces of one batch.
#[derive(Debug)]
pub(super) struct LoosePieces {
    batch: Arc<Batch>,
    fallback: Fallback,
    rdma: Arc<Rdma>,
    /// The peer.
    endpoint: Arc<str>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Whether a fence is under way.
    is_fencing: bool,
    /// Whether the end of their time is watched.
    is_watched: bool,
    /// Wait for that fence.
    fenced: Vec<LoosePiece>,
    /// Came after it was ordered, and wait for the next one.
    later: Vec<LoosePiece>,
}

impl LoosePieces {
    pub(super) fn new(
        batch: &Arc<Batch>,
        fallback: &Fallback,
        rdma: &Arc<Rdma>,
        endpoint: Arc<str>,
    ) -> Arc<Self> {
        Arc::new(Self {
            batch: batch.clone(),
            fallback: fallback.clone(),
            rdma: rdma.clone(),
            endpoint,
            waiting: Mutex::default(),
        })
    }

    /// Takes a piece; `error` is what is said of it if the fence is not confirmed in time.
    pub(super) fn add(
        self: &Arc<Self>,
        direction: Direction,
        piece: RequestPiece,
        error: EngineError,
    ) {
        let is_watched = {
            let mut waiting = self.lock();
            waiting.later.push(LoosePiece { direction, piece, error });
            std::mem::replace(&mut waiting.is_watched, true)
        };
        if !is_watched {
            self.watch();
        }
        match self.batch.is_canceled() {
            true => self.give_up(Some(&EngineError::Canceled)),
            false => self.fence(),
        }
    }

    /// Has them given up at the end of their time, or when the batch is taken back.
    fn watch(self: &Arc<Self>) {
        let (late, taken_back) = (self.clone(), self.clone());
        let batch = Arc::downgrade(&self.batch);
        let is_wanted = move || batch.upgrade().is_some_and(|batch| !batch.is_over());
        let due = self.fallback.terms.due;
        self.fallback.shards.at(due, is_wanted, move || late.give_up(None));
        let canceled = EngineError::Canceled;
        self.batch.when_taken_back(Box::new(move || taken_back.give_up(Some(&canceled))));
    }

    /// Orders a fence for those that wait for none, unless one is under way.
    fn fence(self: &Arc<Self>) {
        {
            let mut waiting = self.lock();
            if waiting.is_fencing || waiting.later.is_empty() {
                return;
            }
            waiting.is_fencing = true;
            debug_assert!(waiting.fenced.is_empty(), "the fence before has been heard of");
            waiting.fenced = std::mem::take(&mut waiting.later);
        }
        let loose = self.clone();
        let done = Done::new(move |is_fenced| loose.heard(is_fenced));
        self.rdma.fence(&self.endpoint, done);
    }

    /// The fence is over.
    fn heard(self: &Arc<Self>, is_fenced: bool) {
        let fenced = {
            let mut waiting = self.lock();
            debug_assert!(waiting.is_fencing, "a fence is heard of once");
            waiting.is_fencing = false;
            std::mem::take(&mut waiting.fenced)
        };
        self.fence();
        if is_fenced && self.fallback.has_time(&self.batch) {
            let pieces = fenced.iter().map(|loose| (loose.direction, loose.piece));
            return self.fallback.divert_pieces(&self.batch, pieces);
        }
        for loose in fenced {
            self.batch.failed(loose.piece.request, &loose.error);
        }
    }

    /// Bytes of them may still land, which their error says.
    fn give_up(&self, reason: Option<&EngineError>) {
        let given_up = {
            let mut waiting = self.lock();
            let fenced = std::mem::take(&mut waiting.fenced);
            let later = std::mem::take(&mut waiting.later);
            fenced.into_iter().chain(later)
        };
        for loose in given_up {
            let error = reason.unwrap_or(&loose.error);
            self.batch.failed(loose.piece.request, error);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
