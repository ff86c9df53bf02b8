//! Spans of requests, as the pages of processes show them. Invariant: a span is taken once.

use crate::host::{FoundProcesses, NetworkNamespace, foreign_name};
use crate::traces::entry::{SpanEntry, SpanOrigin};
use perigee_activity::{PageListing, PageReader, Route, Span, SpansSeen};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The spans of all pages.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// By the name of the page.
    seen: BTreeMap<OsString, SpansSeen>,
    /// Those that were not taken yet.
    new: Vec<SpanEntry>,
    lost: u64,
}

impl Spans {
    /// Takes what is new in the pages.
    pub(super) fn read(
        &mut self,
        host: &str,
        pages: &PageListing,
        found: &FoundProcesses,
        network: NetworkNamespace,
    ) {
        for page in pages.opened() {
            let file = page.path().file_name().unwrap_or_default().to_owned();
            let pid = found.pids.get(&file).copied().unwrap_or(page.pid());
            let origin = SpanOrigin { host, pid, program: page.program() };
            self.take(page, file, &origin, network.is_foreign(page));
        }
        self.seen.retain(|page, _| pages.holds(page));
    }

    fn take(
        &mut self,
        page: &PageReader,
        file: OsString,
        origin: &SpanOrigin<'_>,
        is_foreign: bool,
    ) {
        match page.spans(self.seen.entry(file).or_default()) {
            Ok(reading) => {
                let device = |span: &Span| match span.what() {
                    name if is_foreign && span.route() == Some(Route::Tcp) => foreign_name(&name),
                    name => name,
                };
                let spans = reading.spans.iter();
                self.new.extend(spans.map(|span| SpanEntry::of(span, device(span), origin)));
                self.lost = self.lost.saturating_add(reading.lost);
            }
            Err(error) => {
                tracing::debug!(page = %page.path().display(), %error, "A page cannot be read");
            }
        }
    }

    /// What is new since the last call.
    pub(super) fn taken(&mut self) -> Vec<SpanEntry> {
        std::mem::take(&mut self.new)
    }

    /// Spans that were overwritten before they were seen.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}
