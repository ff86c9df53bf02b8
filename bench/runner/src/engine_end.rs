//! One end of a load through the transfer engine. Invariant: the buffer outlives the engine, which may write to it until
//! it is closed.

use std::sync::Arc;
use std::time::Duration;

use perigee_engine::{
    BatchId, Direction, EngineOptions, Request, Route, State, SubmitOptions, TransferEngine,
};
use perigee_memory::segment::SegmentOptions;
use perigee_memory::{HostBuffer, Segment};

use crate::error::BenchError;
use crate::limits::WAIT_MARGIN;
use crate::mover::{CardCount, Move, Mover, Ticket, Way};

/// An engine with one registered buffer.
#[derive(Debug)]
pub struct EngineEnd {
    engine: TransferEngine,
    // After the engine: fields are dropped in this order.
    buffer: Buffer,
}

/// The memory of an end.
#[derive(Debug)]
enum Buffer {
    /// Of this process alone.
    Own(HostBuffer),
    /// Handed to engines of this host.
    Shared(Arc<Segment>),
}

impl Buffer {
    fn base(&self) -> *mut u8 {
        match self {
            Self::Own(buffer) => buffer.base(),
            Self::Shared(segment) => segment.base(),
        }
    }

    /// # Safety
    /// The buffer must live until the engine is closed.
    unsafe fn register(&self, engine: &TransferEngine) -> Result<(), BenchError> {
        match self {
            Self::Own(buffer) => {
                let (address, bytes) = (buffer.base() as u64, buffer.len() as u64);
                // SAFETY: the caller's promise is the same.
                unsafe { engine.register(address, bytes, "*") }?;
            }
            Self::Shared(segment) => engine.register_segment(segment, "*")?,
        }
        Ok(())
    }
}

impl EngineEnd {
    /// Starts an engine and registers a buffer of `bytes` bytes, every page of it touched.
    ///
    /// # Errors
    /// The engine does not start, or memory is not to be had.
    pub fn start(options: EngineOptions, bytes: u64) -> Result<Self, BenchError> {
        Self::with_buffer(
            options,
            Buffer::Own(HostBuffer::allocate(length(bytes)?)?),
            bytes,
        )
    }

    /// As [`EngineEnd::start`], with memory that ends on the same machine copy into and out of directly.
    ///
    /// # Errors
    /// As [`EngineEnd::start`].
    pub fn start_shared(options: EngineOptions, bytes: u64) -> Result<Self, BenchError> {
        let segment = Segment::create(bytes, &SegmentOptions::default())?;
        Self::with_buffer(options, Buffer::Shared(Arc::new(segment)), bytes)
    }

    fn with_buffer(options: EngineOptions, buffer: Buffer, bytes: u64) -> Result<Self, BenchError> {
        // SAFETY: the buffer is this long, and nobody else has it.
        unsafe { buffer.base().write_bytes(0x5A, length(bytes)?) };
        let end = Self {
            engine: TransferEngine::start(options)?,
            buffer,
        };
        // SAFETY: the buffer lives until the engine is closed, in `drop`.
        unsafe { end.buffer.register(&end.engine) }?;
        Ok(end)
    }

    /// The name that others pass as their target.
    #[must_use]
    pub fn name(&self) -> String {
        self.engine.local_name().to_owned()
    }

    /// Whether some rail of the engine uses verbs.
    #[must_use]
    pub fn has_rdma(&self) -> bool {
        let rails = self.engine.rails();
        rails.iter().any(|rail| rail.route == Route::Rdma)
    }

    /// Address of the buffer.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.buffer.base() as u64
    }

    /// Moves between the buffer and that of the end called `peer`, each within `deadline`.
    ///
    /// # Errors
    /// The other end cannot be reached or has no buffer.
    pub fn towards(&self, peer: &str, deadline: Duration) -> Result<EngineMover<'_>, BenchError> {
        Ok(EngineMover {
            engine: &self.engine,
            peer: peer.to_owned(),
            base: self.engine.first_buffer(peer)?,
            options: SubmitOptions {
                deadline: Some(deadline),
                ..SubmitOptions::default()
            },
            wait: deadline + WAIT_MARGIN,
        })
    }
}

fn length(bytes: u64) -> Result<usize, BenchError> {
    usize::try_from(bytes).map_err(|_| BenchError::conflict("The buffer is larger than memory"))
}

impl Drop for EngineEnd {
    fn drop(&mut self) {
        self.engine.close();
    }
}

/// An engine and its target.
#[derive(Debug)]
pub struct EngineMover<'a> {
    engine: &'a TransferEngine,
    peer: String,
    /// Address of the target's buffer in its process.
    base: u64,
    options: SubmitOptions,
    wait: Duration,
}

impl EngineMover<'_> {
    /// The same, over one route only: `tcp`, `rdma` or `shm`.
    #[must_use]
    pub fn by(mut self, route: &str) -> Self {
        self.options.hint = Some(route.to_owned());
        self
    }

    fn request(&self, piece: &Move) -> Request {
        Request {
            direction: match piece.way {
                Way::Write => Direction::Write,
                Way::Read => Direction::Read,
            },
            local: piece.local,
            remote: self.base + piece.remote,
            bytes: piece.bytes,
        }
    }

    /// The error for a batch that ended as `state`, with what the target says when asked.
    fn failure(&self, state: State) -> BenchError {
        let detail = match self.engine.probe(&self.peer) {
            Ok(()) => String::new(),
            Err(error) => format!(": {error}"),
        };
        BenchError::Transfer {
            peer: self.peer.clone(),
            state: format!("{state:?}").to_lowercase(),
            detail,
        }
    }
}

impl Mover for EngineMover<'_> {
    fn submit(&self, moves: &[Move]) -> Result<Ticket, BenchError> {
        let requests: Vec<Request> = moves.iter().map(|piece| self.request(piece)).collect();
        // SAFETY: local ranges lie within the registered buffer, which outlives the engine.
        let batch = unsafe { self.engine.submit(&self.peer, &requests, &self.options)? };
        Ok(Ticket(batch.0))
    }

    fn wait(&self, ticket: Ticket) -> Result<(), BenchError> {
        let batch = BatchId(ticket.0);
        let status = self.engine.wait(batch, self.wait)?;
        if status.state != State::Completed {
            return Err(self.failure(status.state));
        }
        Ok(self.engine.release(batch)?)
    }

    fn transfer(&self, piece: &Move) -> Result<(), BenchError> {
        let requests = [self.request(piece)];
        // SAFETY: local ranges lie within the registered buffer, which outlives the engine.
        unsafe { self.engine.transfer(&self.peer, &requests, &self.options) }?;
        Ok(())
    }

    fn cards(&self) -> Vec<CardCount> {
        let rails = self.engine.rails().into_iter();
        rails
            .map(|rail| CardCount {
                bytes: rail.bytes_read + rail.bytes_written,
                operations: rail.operations,
                name: rail.name,
            })
            .collect()
    }
}
