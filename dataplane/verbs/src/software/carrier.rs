//! The thread that does what falls due on a network with the real clock.
//! Invariant: holds no handle of the network, so that dropping the last one ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::VerbsError;

use super::SharedFabric;

/// How long the thread sleeps when nothing is due; it is woken when something is.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct CarrierThread {
    shared: Arc<SharedFabric>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CarrierThread {
    pub(super) fn start(shared: Arc<SharedFabric>) -> Result<CarrierThread, VerbsError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, seen) = (Arc::clone(&shared), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("software-fabric".to_owned())
            .spawn(move || carry(&theirs, &seen))
            .map_err(|error| VerbsError::Background { detail: error.to_string() })?;
        Ok(CarrierThread { shared, stop, thread: Some(thread) })
    }
}

fn carry(shared: &SharedFabric, stop: &AtomicBool) {
    let mut state = shared.lock();
    while !stop.load(Ordering::Acquire) {
        state.run_due();
        let pause = state.next_due().map_or(IDLE, |due| due.saturating_sub(state.now()));
        state = shared.wake.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        if let Some(started) = shared.started {
            state.set_now(started.elapsed());
        }
    }
}

impl Drop for CarrierThread {
    fn drop(&mut self) {
        {
            // Under the lock, or the thread could miss it between its check and its sleep.
            let _state = self.shared.lock();
            self.stop.store(true, Ordering::Release);
        }
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, there would be nothing left to stop.
            let _ = thread.join();
        }
    }
}
