//! Moves through an engine. Invariant: nothing is waited for much longer than its deadline, or than
//! the run is wanted.

use std::time::Duration;

use perigee_engine::{
    BatchId, EngineError, PeerError, Route, SubmitOptions, TransferEngine, TransferRequest,
    TransferState,
};

use crate::ends::mover::{CardCount, Move, Mover, Ticket};
use crate::error::BenchError;
use crate::limits::{STOP_LOOK, WAIT_MARGIN};
use crate::stop::Stop;

/// An engine and its target.
#[derive(Debug)]
pub(crate) struct EngineMover<'a> {
    engine: &'a TransferEngine,
    peer: String,
    /// Address of the target's buffer in its process, and its length.
    base: u64,
    target_bytes: u64,
    options: SubmitOptions,
    /// What the user asked for; the engine adds some for the bytes.
    deadline: Duration,
    wait: Duration,
    stop: &'a Stop,
}

impl<'a> EngineMover<'a> {
    pub(super) fn new(
        engine: &'a TransferEngine,
        peer: &str,
        base: u64,
        target_bytes: u64,
        deadline: Duration,
        stop: &'a Stop,
    ) -> Self {
        Self {
            engine,
            peer: peer.to_owned(),
            base,
            target_bytes,
            options: SubmitOptions { deadline: Some(deadline), ..SubmitOptions::default() },
            deadline,
            // Large batches get more than the deadline; none has more than one end's buffer.
            wait: deadline + Duration::from_nanos(target_bytes) + WAIT_MARGIN,
            stop,
        }
    }

    /// The same, over one route only: `tcp`, `rdma` or `shm`.
    #[must_use]
    pub(crate) fn by(mut self, route: &str) -> Self {
        self.options.hint = Some(route.to_owned());
        self
    }

    /// Length of the target's buffer.
    #[must_use]
    pub(crate) fn target_bytes(&self) -> u64 {
        self.target_bytes
    }

    fn request(&self, piece: &Move) -> TransferRequest {
        TransferRequest {
            direction: piece.direction,
            local: piece.local,
            remote: self.base + piece.remote,
            bytes: piece.bytes,
        }
    }

    /// Takes back a batch that is not over long after its deadline: something holds the threads of
    /// the engine up.
    fn overdue(&self, batch: BatchId) -> BenchError {
        // If that fails, too, closing the engine ends it.
        let _ = self.engine.cancel(batch);
        self.late()
    }

    fn late(&self) -> BenchError {
        BenchError::Engine(EngineError::Peer(PeerError::Deadline {
            peer: self.peer.clone(),
            deadline: self.deadline,
        }))
    }

    /// A failure in the words of the user's settings.
    fn failed(&self, error: EngineError) -> BenchError {
        match error {
            EngineError::Peer(PeerError::Deadline { .. }) => self.late(),
            error => error.into(),
        }
    }
}

impl Mover for EngineMover<'_> {
    fn submit(&self, moves: &[Move]) -> Result<Ticket, BenchError> {
        let requests: Vec<TransferRequest> =
            moves.iter().map(|piece| self.request(piece)).collect();
        // SAFETY: local ranges lie within the registered buffer, which outlives the engine.
        let batch = unsafe { self.engine.submit(&self.peer, &requests, &self.options) };
        Ok(Ticket(batch.map_err(|error| self.failed(error))?.0))
    }

    fn wait(&self, ticket: Ticket) -> Result<(), BenchError> {
        let batch = BatchId(ticket.0);
        let mut left = self.wait;
        loop {
            let step = left.min(STOP_LOOK);
            match self.engine.wait(batch, step)?.state {
                TransferState::Completed => return Ok(self.engine.release(batch)?),
                TransferState::Waiting | TransferState::Pending if left.is_zero() => {
                    return Err(self.overdue(batch));
                }
                // The engine is being closed; its buffer is kept until that is done.
                TransferState::Waiting | TransferState::Pending if self.stop.is_set() => {
                    return Err(BenchError::Interrupted);
                }
                TransferState::Waiting | TransferState::Pending => left -= step,
                _ => {
                    let outcome = self.engine.batch_outcome(batch);
                    return outcome.map_err(|error| self.failed(error));
                }
            }
        }
    }

    fn transfer(&self, piece: &Move) -> Result<(), BenchError> {
        let requests = [self.request(piece)];
        // SAFETY: local ranges lie within the registered buffer, which outlives the engine.
        let outcome = unsafe { self.engine.transfer(&self.peer, &requests, &self.options) };
        outcome.map_err(|error| self.failed(error))
    }

    fn cards(&self) -> Vec<CardCount> {
        let rails = self.engine.rails().into_iter();
        rails
            .map(|rail| CardCount {
                name: rail.name,
                is_rdma: rail.route == Route::Rdma,
                read_bytes: rail.bytes_read,
                written_bytes: rail.bytes_written,
            })
            .collect()
    }
}
