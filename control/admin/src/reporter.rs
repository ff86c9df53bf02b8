//! The periodic summary in the log. Invariant: it runs on a thread of its own and stops at once
//! when its owner drops it.

use crate::limits::REPORT_PERIOD;
use crate::master_view::ControlPlane;
use crate::summary::{Rates, older_text};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// The reporting thread.
#[derive(Debug)]
pub(crate) struct Reporter {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    /// Starts the thread.
    pub(crate) fn start(plane: Arc<dyn ControlPlane>) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let report = move || report_until(&plane, &stopped);
        let thread = std::thread::Builder::new().name("report".to_owned()).spawn(report)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("Reporting thread ended by a panic");
        }
    }
}

fn report_until(plane: &Arc<dyn ControlPlane>, stopped: &Receiver<()>) {
    let mut rates = Rates::new(Instant::now());
    while stopped.recv_timeout(REPORT_PERIOD) == Err(RecvTimeoutError::Timeout) {
        match plane.numbers() {
            Ok(numbers) => {
                let cells = plane.cells();
                let ready = plane.readiness().is_ok();
                let text = rates.admin_text(Instant::now(), &cells, &numbers, ready);
                tracing::info!("Master Metrics: {}", older_text(&cells, &numbers));
                tracing::info!("Master Admin Metrics: {text}");
            }
            Err(status) => tracing::warn!(status = status.name(), "No numbers for the summary"),
        }
    }
}
