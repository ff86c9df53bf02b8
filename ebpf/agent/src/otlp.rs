//! Kept spans and metrics, sent to a collector of OpenTelemetry over HTTP. Invariant: a collector
//! that is slow or away holds up nothing but this thread; spans that find no room are counted.

mod backlog;
mod collector_client;
mod counts;
mod metrics;
mod spans;
mod target;
mod value;

use crate::board::SnapshotBoard;
use crate::limits::{OTLP_METRICS_PERIOD, OTLP_QUEUE_LENGTH};
use crate::metrics::samples;
use crate::traces::SpanEntry;
use backlog::SpanBacklog;
use collector_client::{CollectorClient, Sent};
pub(crate) use counts::ExportCounts;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
pub use target::OtlpTarget;
use target::Signal;

/// The thread that sends. Dropping it ends it, after what waits was offered once more.
#[derive(Debug)]
pub(crate) struct OtlpExporter {
    queue: Option<ExportQueue>,
    thread: Option<JoinHandle<()>>,
}

/// Where spans are left to be sent.
#[derive(Clone, Debug)]
pub(crate) struct ExportQueue {
    spans: SyncSender<Vec<SpanEntry>>,
    counts: Arc<ExportCounts>,
}

impl ExportQueue {
    /// Leaves spans; a full queue takes none.
    pub(crate) fn put(&self, spans: &[SpanEntry]) {
        if spans.is_empty() {
            return;
        }
        match self.spans.try_send(spans.to_vec()) {
            Ok(()) => {}
            Err(TrySendError::Full(spans) | TrySendError::Disconnected(spans)) => {
                self.counts.add_dropped(spans.len());
            }
        }
    }

    /// What became of spans up to now.
    pub(crate) fn counts(&self) -> &ExportCounts {
        &self.counts
    }
}

impl OtlpExporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(target: OtlpTarget, board: Arc<SnapshotBoard>) -> std::io::Result<Self> {
        let (queue, spans) = sync_channel(OTLP_QUEUE_LENGTH);
        let counts = Arc::<ExportCounts>::default();
        let thread = std::thread::Builder::new().name("agent-otlp".to_owned());
        let mut export = Export::new(target, board, Arc::clone(&counts));
        let thread = thread.spawn(move || export.run(&spans))?;
        Ok(Self { queue: Some(ExportQueue { spans: queue, counts }), thread: Some(thread) })
    }

    /// Where spans are left. The thread ends only when all of them are gone.
    pub(crate) fn queue(&self) -> Option<ExportQueue> {
        self.queue.clone()
    }
}

impl Drop for OtlpExporter {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("The thread that exports ended by a panic");
        }
    }
}

/// What the thread works with.
struct Export {
    board: Arc<SnapshotBoard>,
    traces: Option<CollectorClient>,
    metrics: Option<CollectorClient>,
    backlog: SpanBacklog,
    /// When metrics are sent next.
    due: Instant,
    /// Attributes of all that is sent.
    attributes: Vec<(String, String)>,
    /// What the agent calls itself.
    service: Option<String>,
}

impl Export {
    fn new(target: OtlpTarget, board: Arc<SnapshotBoard>, counts: Arc<ExportCounts>) -> Self {
        Self {
            board,
            traces: target.traces.map(CollectorClient::new),
            metrics: target.metrics.map(CollectorClient::new),
            backlog: SpanBacklog::new(counts),
            due: Instant::now() + OTLP_METRICS_PERIOD,
            attributes: target.attributes,
            service: target.service,
        }
    }

    /// Sends until no giver of spans is left.
    fn run(&mut self, queue: &Receiver<Vec<SpanEntry>>) {
        loop {
            let wait = self.next_turn().saturating_duration_since(Instant::now());
            match queue.recv_timeout(wait) {
                Ok(spans) => {
                    self.take(spans);
                    queue.try_iter().for_each(|spans| self.take(spans));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.end(),
            }
            self.send_spans();
            if self.due <= Instant::now() {
                self.due = Instant::now() + OTLP_METRICS_PERIOD;
                self.send_metrics();
            }
        }
    }

    /// When there is something to do if no spans come.
    fn next_turn(&self) -> Instant {
        let waits = self.traces.as_ref().filter(|_| !self.backlog.is_empty());
        let resumes = waits.and_then(CollectorClient::resumes);
        resumes.map_or(self.due, |resumes| resumes.min(self.due))
    }

    fn take(&mut self, spans: Vec<SpanEntry>) {
        if self.traces.is_some() {
            self.backlog.add(spans);
        }
    }

    /// Sends what waits, until all was taken or the collector wants a pause.
    fn send_spans(&mut self) {
        let Some(collector) = &mut self.traces else {
            return;
        };
        while !self.backlog.is_empty() && collector.resumes().is_none() {
            let spans = self.backlog.next();
            let count = spans.len();
            let refused = match collector.send(&spans::request(spans, &self.attributes)) {
                Sent::Later => return,
                Sent::Refused => count as u64,
                Sent::Taken(answer) => {
                    let answer = ExportTraceServiceResponse::decode(&answer[..]);
                    let partly = answer.ok().and_then(|answer| answer.partial_success);
                    let partly = partly.unwrap_or_default();
                    let refused = partly.rejected_spans;
                    if refused > 0 || !partly.error_message.is_empty() {
                        collector.complained(Signal::Traces, refused, &partly.error_message);
                    }
                    u64::try_from(refused).unwrap_or(0)
                }
            };
            self.backlog.taken(count, refused);
        }
    }

    /// Sends metrics once: the next ones stand for those that are not taken.
    fn send_metrics(&mut self) {
        let Some(collector) = self.metrics.as_mut().filter(|it| it.resumes().is_none()) else {
            return;
        };
        let Some(snapshot) = self.board.last() else {
            return;
        };
        let text = samples(&snapshot, &self.board.exemplars()).render_openmetrics();
        let taken = Duration::from_millis(snapshot.taken_ms);
        let resource = value::of_agent(&snapshot.host, self.service.as_deref(), &self.attributes);
        if let Sent::Taken(answer) = collector.send(&metrics::request(&text, taken, resource)) {
            let answer = ExportMetricsServiceResponse::decode(&answer[..]);
            let partly = answer.ok().and_then(|answer| answer.partial_success).unwrap_or_default();
            let refused = partly.rejected_data_points;
            if refused > 0 || !partly.error_message.is_empty() {
                collector.complained(Signal::Metrics, refused, &partly.error_message);
            }
        }
    }

    /// The agent ends: a collector that was there gets what waits.
    fn end(&mut self) {
        if self.traces.as_ref().is_some_and(|collector| !collector.is_away()) {
            self.send_spans();
        }
        self.backlog.give_up();
    }
}

#[cfg(test)]
mod tests;
