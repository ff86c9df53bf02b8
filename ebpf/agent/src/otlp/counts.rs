//! What became of spans that were to be exported. Invariant: each of them counts once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Spans since the agent began; the exporter and who gives it spans count.
#[derive(Debug, Default)]
pub(crate) struct ExportCounts {
    sent: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

impl ExportCounts {
    /// The collector has taken them.
    pub(super) fn add_sent(&self, spans: u64) {
        self.sent.fetch_add(spans, Relaxed);
    }

    /// The collector does not want them.
    pub(super) fn add_refused(&self, spans: u64) {
        self.refused.fetch_add(spans, Relaxed);
    }

    /// The queue was full, because the collector was away or slow.
    pub(super) fn add_dropped(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Relaxed);
    }

    /// By the `result` label.
    pub(crate) fn results(&self) -> [(&'static str, u64); 3] {
        [
            ("sent", self.sent.load(Relaxed)),
            ("refused", self.refused.load(Relaxed)),
            ("dropped", self.dropped.load(Relaxed)),
        ]
    }
}
