//! One end of a load through the transfer engine. Invariant: the buffer outlives the engine, which
//! may write to it until it is closed.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use perigee_engine::{EngineError, EngineOptions, PeerError, Route, TransferEngine};
use perigee_memory::segment::SegmentOptions;
use perigee_memory::{HostBuffer, Segment};

use crate::error::BenchError;
use crate::limits::STOP_LOOK;
use crate::stop::Stop;
use watch::Watch;

mod mover;
mod watch;

pub(crate) use mover::EngineMover;

/// An engine with one registered buffer.
#[derive(Debug)]
pub(crate) struct EngineEnd {
    engine: TransferEngine,
    // After the engine: fields are dropped in this order.
    buffer: Arc<Buffer>,
    stop: Stop,
    /// Always there but in `drop`.
    watch: Option<Watch>,
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
    /// Starts an engine and registers a buffer of `bytes` bytes, every page of it touched. It is
    /// given up as soon as `stop` is set: a wait for a transfer ends with an error.
    ///
    /// # Errors
    /// The engine does not start, or memory cannot be allocated.
    pub(crate) fn start(
        options: EngineOptions,
        bytes: u64,
        stop: &Stop,
    ) -> Result<Self, BenchError> {
        let buffer = Buffer::Own(HostBuffer::allocate(length(bytes)?)?);
        Self::with_buffer(options, buffer, bytes, stop)
    }

    /// As [`EngineEnd::start`], with memory that ends on the same machine copy into and out of
    /// directly.
    ///
    /// # Errors
    /// As [`EngineEnd::start`].
    pub(crate) fn start_shared(
        options: EngineOptions,
        bytes: u64,
        stop: &Stop,
    ) -> Result<Self, BenchError> {
        let segment = Segment::create(bytes, &SegmentOptions::default())?;
        Self::with_buffer(options, Buffer::Shared(Arc::new(segment)), bytes, stop)
    }

    fn with_buffer(
        options: EngineOptions,
        buffer: Buffer,
        bytes: u64,
        stop: &Stop,
    ) -> Result<Self, BenchError> {
        // SAFETY: the buffer is this long, and nothing else uses it.
        unsafe { buffer.base().write_bytes(0x5A, length(bytes)?) };
        let engine = TransferEngine::start(options)?;
        let watch = Some(Watch::start(&engine, stop)?);
        let end = Self { engine, buffer: Arc::new(buffer), stop: stop.clone(), watch };
        // SAFETY: the buffer lives until the engine is closed, in `drop`, or forever.
        unsafe { end.buffer.register(&end.engine) }?;
        Ok(end)
    }

    /// The name that others pass as their target.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        self.engine.local_name().to_owned()
    }

    /// Whether some rail of the engine uses verbs.
    #[must_use]
    pub(crate) fn has_rdma(&self) -> bool {
        let rails = self.engine.rails();
        rails.iter().any(|rail| rail.route == Route::Rdma)
    }

    /// Address of the buffer.
    #[must_use]
    pub(crate) fn address(&self) -> u64 {
        self.buffer.base() as u64
    }

    /// Moves between the buffer and that of the end called `peer`, each within `deadline`, which
    /// the first contact has, too.
    ///
    /// # Errors
    /// The other end cannot be reached in time or has no buffer, or the run is to end.
    pub(crate) fn towards(
        &self,
        peer: &str,
        deadline: Duration,
    ) -> Result<EngineMover<'_>, BenchError> {
        let (base, bytes) = self.first_contact(peer, deadline)?;
        let (engine, stop) = (&self.engine, &self.stop);
        Ok(EngineMover::new(engine, peer, base, bytes, deadline, stop))
    }

    /// The host on which the end called `peer` runs: its address, or a name of it.
    ///
    /// # Errors
    /// The peer does not know the end.
    pub(crate) fn host_of(&self, peer: &str) -> Result<String, BenchError> {
        Ok(self.engine.host_of(peer)?)
    }

    /// Address and length of the buffer of `peer`. The question is put by another thread: it may
    /// wait for an answer longer than the run is wanted.
    fn first_contact(&self, peer: &str, limit: Duration) -> Result<(u64, u64), BenchError> {
        let (sender, outcome) = channel();
        let (engine, name) = (self.engine.clone(), peer.to_owned());
        let ask = move || drop(sender.send(engine.first_buffer_within(&name, limit)));
        let builder = thread::Builder::new().name("perigee-contact".to_owned());
        builder.spawn(ask)?;
        let mut left = limit + STOP_LOOK;
        loop {
            match outcome.recv_timeout(STOP_LOOK) {
                Ok(found) => return Ok(found?),
                Err(RecvTimeoutError::Disconnected) => return Err(BenchError::LoadThread),
                Err(RecvTimeoutError::Timeout) if self.stop.is_set() => {
                    return Err(BenchError::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if left < STOP_LOOK => {
                    return Err(BenchError::Engine(EngineError::Peer(PeerError::Deadline {
                        peer: peer.to_owned(),
                        deadline: limit,
                    })));
                }
                Err(RecvTimeoutError::Timeout) => left -= STOP_LOOK,
            }
        }
    }
}

fn length(bytes: u64) -> Result<usize, BenchError> {
    usize::try_from(bytes).map_err(|_| BenchError::conflict("The buffer is larger than memory"))
}

impl Drop for EngineEnd {
    fn drop(&mut self) {
        if !self.watch.take().is_none_or(Watch::close) {
            // A thread of the engine hangs. The run is over: the memory that it may still write to
            // is kept forever.
            let _ = Arc::into_raw(self.buffer.clone());
        }
    }
}

#[cfg(test)]
mod tests;
