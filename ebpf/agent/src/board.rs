//! What the agent shows to its web server. Invariant: one writer, many readers.

use crate::exemplars::Exemplars;
use crate::host;
use crate::limits::STOP_DEADLINE;
use crate::recorder::{HistoryWindow, Recorder};
use crate::snapshot::Snapshot;
use crate::traces::{SpanEntry, TraceAnswer, TraceQuestion, TraceStore};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The last snapshot, for those who serve it.
#[derive(Debug)]
pub(crate) struct SnapshotBoard {
    last: Mutex<Option<Arc<Snapshot>>>,
    changed: Condvar,
    history: Mutex<Recorder>,
    /// When the host was read last; the beginning before that.
    read_at: Mutex<Instant>,
    traces: Mutex<TraceStore>,
    exemplars: Mutex<Exemplars>,
    /// The master that this agent reports to.
    cluster: Option<String>,
}

impl SnapshotBoard {
    /// A board without a snapshot, whose history goes on from what lies in this folder.
    pub(crate) fn open(state: Option<&Path>, cluster: Option<String>) -> Self {
        Self {
            last: Mutex::default(),
            changed: Condvar::new(),
            history: Mutex::new(Recorder::open(state)),
            read_at: Mutex::new(Instant::now()),
            traces: Mutex::default(),
            exemplars: Mutex::default(),
            cluster,
        }
    }

    /// How long ago the host was read: long only if the collecting thread is gone or held up.
    pub(crate) fn age(&self) -> Duration {
        self.read_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// The last snapshot; waits for the first one, but not forever.
    pub(crate) fn last(&self) -> Option<Arc<Snapshot>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_empty = |last: &mut Option<Arc<Snapshot>>| last.is_none();
        let waited = self.changed.wait_timeout_while(last, STOP_DEADLINE, is_empty);
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// What was recorded between two moments.
    pub(crate) fn history(&self, from_ms: u64, to_ms: u64) -> HistoryWindow {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).window(from_ms, to_ms)
    }

    /// Holds spans of requests.
    pub(crate) fn keep(&self, spans: Vec<SpanEntry>) {
        self.exemplars.lock().unwrap_or_else(PoisonError::into_inner).add(&spans);
        self.traces.lock().unwrap_or_else(PoisonError::into_inner).add(spans);
    }

    /// Requests that stand for values of histograms.
    pub(crate) fn exemplars(&self) -> Exemplars {
        self.exemplars.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is held of requests.
    pub(crate) fn traces(&self, question: &TraceQuestion) -> TraceAnswer {
        let spans = self.traces.lock().unwrap_or_else(PoisonError::into_inner).find(question);
        let (schema, cluster) = (TraceAnswer::SCHEMA, self.cluster.clone());
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = last.as_ref().and_then(|last| last.lost.get("spans").copied()).unwrap_or(0);
        TraceAnswer { schema, host: host::name(), cluster, lost, spans }
    }

    /// Shows a new snapshot, and records it.
    pub(crate) fn put(&self, snapshot: Snapshot) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).put(&snapshot);
        *self.read_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(snapshot));
        self.changed.notify_all();
    }
}
