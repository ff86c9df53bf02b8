//! Reports links and suspects of this host to a master, which judges the cluster as a whole.
//! Invariant: a master that is slow or away holds up nothing but this thread.

mod report;

use crate::board::SnapshotBoard;
use crate::limits::{REPORT_DEADLINE, REPORT_FACTS_FRESH};
use perigee_mesh::MeshHost;
use perigee_verdict::AgentReport;
use perigee_verdict::limits::REPORT_PERIOD_MS;
use report::report;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The thread that reports. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct ClusterReporter {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ClusterReporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        master: String,
        (interfaces, port): (Vec<String>, Option<u16>),
        board: Arc<SnapshotBoard>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("agent-report".to_owned());
        let thread = thread.spawn(move || run(&master, (&interfaces, port), &board, &stopped))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ClusterReporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("The reporting thread ended by a panic");
        }
    }
}

fn run(
    master: &str,
    (interfaces, port): (&[String], Option<u16>),
    board: &SnapshotBoard,
    stopped: &Receiver<()>,
) {
    let config = ureq::Agent::config_builder().timeout_global(Some(REPORT_DEADLINE));
    // The master is in the cluster: a proxy of the environment is for what lies outside it.
    let config = config.http_status_as_error(false).proxy(None);
    let http = ureq::Agent::new_with_config(config.build());
    let url = format!("http://{master}/api/v1/cluster/reports");
    let (mut before, mut last) = (None, None);
    let mut host = MeshHost::of_this_host("", interfaces);
    let mut looked = Instant::now();
    loop {
        if looked.elapsed() >= REPORT_FACTS_FRESH {
            host = MeshHost::of_this_host("", interfaces);
            looked = Instant::now();
        }
        if let Some(now) = board.last() {
            let report = AgentReport { port, ..report(&now, before.as_deref(), &host) };
            let text = serde_json::to_string(&report);
            let sent = text.map_err(|error| error.to_string());
            log_change(&mut last, sent.and_then(|text| post(&http, &url, &text)), master);
            before = Some(now);
        }
        match stopped.recv_timeout(Duration::from_millis(REPORT_PERIOD_MS)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
}

/// Sends a report.
///
/// # Errors
/// It was not taken; in words.
fn post(http: &ureq::Agent, url: &str, text: &str) -> Result<(), String> {
    // The name is the operator's own, not one that a page brought here.
    let request = http.post(url).header("x-perigee-trusted-host", "yes");
    let request = request.header("content-type", "application/json");
    let mut answer = request.send(text).map_err(|error| error.to_string())?;
    if answer.status().is_success() {
        return Ok(());
    }
    let body = answer.body_mut().with_config().limit(4096).read_to_string();
    Err(format!("{}: {}", answer.status(), body.unwrap_or_default()))
}

/// Says when reports begin to be taken and when they no longer are, not each time.
fn log_change(last: &mut Option<bool>, sent: Result<(), String>, master: &str) {
    let is_well = sent.is_ok();
    if last.replace(is_well) == Some(is_well) {
        return;
    }
    match sent {
        Ok(()) => tracing::info!(master, "The master takes reports of this agent"),
        Err(reason) => {
            tracing::warn!(master, %reason, "The master does not take reports; retrying");
        }
    }
}
