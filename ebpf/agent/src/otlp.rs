//! Kept spans and metrics, sent to a collector of OpenTelemetry over HTTP. Invariant: a collector
//! that is slow or away holds up nothing but this thread; what finds no room in its queue is
//! dropped.

mod metrics;
mod spans;
mod value;

use crate::board::SnapshotBoard;
use crate::limits::{OTLP_DEADLINE, OTLP_METRICS_PERIOD, OTLP_QUEUE_LENGTH};
use crate::metrics::samples;
use crate::traces::SpanEntry;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The thread that sends. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct OtlpExporter {
    queue: Option<SyncSender<Vec<SpanEntry>>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl OtlpExporter {
    /// Starts the thread; `endpoint` is as `OTEL_EXPORTER_OTLP_ENDPOINT` has it.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(endpoint: String, board: Arc<SnapshotBoard>) -> std::io::Result<Self> {
        let (queue, spans) = sync_channel(OTLP_QUEUE_LENGTH);
        let thread = std::thread::Builder::new().name("agent-otlp".to_owned());
        let sender = CollectorClient::new(endpoint);
        let is_ending = Arc::<AtomicBool>::default();
        let ending = Arc::clone(&is_ending);
        let thread = thread.spawn(move || run(sender, &board, &spans, &ending))?;
        Ok(Self { queue: Some(queue), is_ending, thread: Some(thread) })
    }

    /// Where spans are left to be sent; a full queue takes none.
    pub(crate) fn queue(&self) -> Option<SyncSender<Vec<SpanEntry>>> {
        self.queue.clone()
    }
}

impl Drop for OtlpExporter {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("The thread that exports ended by a panic");
        }
    }
}

/// Sends until all senders of spans are gone, or what is in the queue need not be sent any more.
fn run(
    mut collector: CollectorClient,
    board: &SnapshotBoard,
    spans: &Receiver<Vec<SpanEntry>>,
    is_ending: &AtomicBool,
) {
    let mut due = Instant::now() + OTLP_METRICS_PERIOD;
    while !is_ending.load(Ordering::Relaxed) {
        match spans.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(spans) => {
                let request = spans::request(&spans);
                collector.send("traces", &request.encode_to_vec());
            }
            Err(RecvTimeoutError::Timeout) => {
                due = Instant::now() + OTLP_METRICS_PERIOD;
                if let Some(snapshot) = board.last() {
                    let text = samples(&snapshot).render();
                    let taken = Duration::from_millis(snapshot.taken_ms);
                    let request = metrics::request(&text, taken, &snapshot.host);
                    collector.send("metrics", &request.encode_to_vec());
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// How a collector is reached.
struct CollectorClient {
    http: ureq::Agent,
    /// Without a slash at its end.
    endpoint: String,
    /// Whether the last request was taken; nothing before the first one.
    is_well: Option<bool>,
}

impl CollectorClient {
    fn new(endpoint: String) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(OTLP_DEADLINE));
        let http = ureq::Agent::new_with_config(config.http_status_as_error(false).build());
        Self { http, endpoint: endpoint.trim_end_matches('/').to_owned(), is_well: None }
    }

    /// Sends a request once. Whether that works is logged when it changes, not each time.
    fn send(&mut self, signal: &str, body: &[u8]) {
        let url = format!("{}/v1/{signal}", self.endpoint);
        let request = self.http.post(&url).header("content-type", "application/x-protobuf");
        let sent = match request.send(body) {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(answer.status().to_string()),
            Err(error) => Err(error.to_string()),
        };
        if self.is_well.replace(sent.is_ok()) == Some(sent.is_ok()) {
            return;
        }
        match sent {
            Ok(()) => tracing::info!(url, "The collector takes what is exported"),
            Err(reason) => {
                tracing::warn!(
                    url,
                    reason,
                    "The collector does not take what is exported; trying on"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
