//! Gives up an engine when the run is to end. Invariant: once it is dropped, it does nothing any more, and whatever it has
//! begun is over.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

use perigee_engine::TransferEngine;

use crate::error::BenchError;
use crate::limits::STOP_LOOK;
use crate::stop::Stop;

/// A thread that looks at a [`Stop`].
#[derive(Debug)]
pub(super) struct Watch {
    /// Its end tells the thread to end.
    keep: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Closes the engine when `stop` is set.
    pub(super) fn start(engine: &TransferEngine, stop: &Stop) -> Result<Self, BenchError> {
        let (keep, ended) = channel::<()>();
        let (engine, stop) = (engine.clone(), stop.clone());
        let watch = move || {
            while ended.recv_timeout(STOP_LOOK) == Err(RecvTimeoutError::Timeout) {
                if stop.is_set() {
                    return engine.close();
                }
            }
        };
        let builder = thread::Builder::new().name("perigee-stop".to_owned());
        Ok(Self {
            keep: Some(keep),
            thread: Some(builder.spawn(watch)?),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.keep.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it was told on standard error already.
            let _ = thread.join();
        }
    }
}
