//! The thread that closes an engine: when the run is to end, or when its end goes. Invariant:
//! closing is begun once, so after its end no thread of the engine touches memory
//! any more.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use perigee_engine::TransferEngine;

use crate::error::BenchError;
use crate::limits::{CLOSE_DEADLINE, STOP_LOOK};
use crate::stop::Stop;

/// A thread that looks at a [`Stop`].
#[derive(Debug)]
pub(super) struct Watch {
    /// Its end tells the thread to close the engine.
    keep: Sender<()>,
    /// Ends when that is done.
    closed: Receiver<()>,
}

impl Watch {
    /// Closes the engine when `stop` is set.
    pub(super) fn start(engine: &TransferEngine, stop: &Stop) -> Result<Self, BenchError> {
        let (keep, ended) = channel::<()>();
        let (tell, closed) = channel::<()>();
        let (engine, stop) = (engine.clone(), stop.clone());
        let watch = move || {
            let goes_on = || ended.recv_timeout(STOP_LOOK) == Err(RecvTimeoutError::Timeout);
            while !stop.is_set() && goes_on() {}
            engine.close();
            drop(tell);
        };
        let builder = thread::Builder::new().name("perigee-close".to_owned());
        builder.spawn(watch)?;
        Ok(Self { keep, closed })
    }

    /// Closes the engine; false if that takes too long. Then its threads may still use the buffer.
    pub(super) fn close(self) -> bool {
        drop(self.keep);
        self.closed.recv_timeout(CLOSE_DEADLINE) == Err(RecvTimeoutError::Disconnected)
    }
}
