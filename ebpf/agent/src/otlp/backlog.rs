//! Spans that wait for a collector. Invariant: they are bounded, and the oldest go first.

use super::counts::ExportCounts;
use crate::limits::{OTLP_SPANS_PER_REQUEST, OTLP_SPANS_WAITING_MAX};
use crate::traces::SpanEntry;
use std::collections::VecDeque;
use std::sync::Arc;

/// The spans that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct SpanBacklog {
    spans: VecDeque<SpanEntry>,
    counts: Arc<ExportCounts>,
}

impl SpanBacklog {
    pub(super) fn new(counts: Arc<ExportCounts>) -> Self {
        Self { spans: VecDeque::new(), counts }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Adds spans; where there is no room, the oldest are gone.
    pub(super) fn add(&mut self, spans: Vec<SpanEntry>) {
        self.spans.extend(spans);
        let too_many = self.spans.len().saturating_sub(OTLP_SPANS_WAITING_MAX);
        self.spans.drain(..too_many);
        self.counts.add_dropped(too_many);
    }

    /// What goes into the next request.
    pub(super) fn next(&mut self) -> &[SpanEntry] {
        let spans = self.spans.make_contiguous();
        &spans[..spans.len().min(OTLP_SPANS_PER_REQUEST)]
    }

    /// The collector has these but for some that it did not want.
    pub(super) fn taken(&mut self, spans: usize, refused: u64) {
        self.spans.drain(..spans);
        let refused = refused.min(spans as u64);
        self.counts.add_sent(spans as u64 - refused);
        self.counts.add_refused(refused);
    }

    /// No more of them are sent.
    pub(super) fn give_up(&mut self) {
        self.counts.add_dropped(self.spans.len());
        self.spans.clear();
    }
}
