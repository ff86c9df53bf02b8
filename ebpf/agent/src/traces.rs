//! Spans of requests that the processes of this host have kept. Invariant: what is held is bounded,
//! and the oldest go first.

pub(crate) mod entry;

use crate::limits::{TRACE_CALLS_SHOWN, TRACE_SPANS_MAX};
pub use entry::SpanEntry;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// What an agent answers to who asks for a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceAnswer {
    /// [`TraceAnswer::SCHEMA`].
    pub schema: u32,
    /// Name of the host.
    pub host: String,
    /// `HOST:PORT` of the master that the agent reports to, which knows the other agents.
    #[serde(default)]
    pub cluster: Option<String>,
    /// Spans that were overwritten before the agent had read them, so that parts may be missing.
    #[serde(default)]
    pub lost: u64,
    /// Spans, each call behind what lies below it.
    pub spans: Vec<SpanEntry>,
}

impl TraceAnswer {
    /// Version of the form. New members do not change it.
    pub const SCHEMA: u32 = 1;
}

/// Which spans are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TraceQuestion {
    /// Those of a request, by its 32 digits.
    Id(String),
    /// Those of the latest calls about a key.
    Key(String),
    /// Those of the latest calls.
    Latest,
}

/// The latest spans.
#[derive(Debug, Default)]
pub(crate) struct TraceStore {
    spans: VecDeque<SpanEntry>,
}

impl TraceStore {
    pub(crate) fn add(&mut self, spans: impl IntoIterator<Item = SpanEntry>) {
        self.spans.extend(spans);
        let too_many = self.spans.len().saturating_sub(TRACE_SPANS_MAX);
        self.spans.drain(..too_many);
    }

    /// What is held of what is asked for, the oldest first.
    pub(crate) fn find(&self, question: &TraceQuestion) -> Vec<SpanEntry> {
        if let TraceQuestion::Id(id) = question {
            return self.spans.iter().filter(|span| span.trace == *id).cloned().collect();
        }
        let is_meant = |span: &&SpanEntry| match question {
            TraceQuestion::Key(key) => span.is_about(key),
            _ => true,
        };
        let calls = self.spans.iter().rev().filter(|span| span.kind == "call");
        let calls = calls.filter(is_meant).take(TRACE_CALLS_SHOWN);
        let calls: BTreeSet<&str> = calls.map(|span| span.call.as_str()).collect();
        let shown = self.spans.iter().filter(|span| calls.contains(span.call.as_str()));
        shown.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(kind: &str, trace: u64, call: u64, key: &str) -> SpanEntry {
        SpanEntry {
            kind: kind.to_owned(),
            trace: format!("{trace:032x}"),
            call: format!("{call:016x}"),
            key: key.to_owned(),
            ..SpanEntry::default()
        }
    }

    #[test]
    fn requests_are_found_by_name_and_by_key() {
        let mut store = TraceStore::default();
        store.add([span("transfer", 1, 10, ""), span("call", 1, 10, "a")]);
        store.add([span("served", 1, 10, ""), span("call", 1, 11, "b"), span("call", 2, 12, "a")]);
        let calls = |question| {
            let found = store.find(&question).into_iter();
            found.map(|span| (span.kind, span.call[14..].to_owned())).collect::<Vec<_>>()
        };
        let of = |kind: &str, call: &str| (kind.to_owned(), call.to_owned());
        let first = [of("transfer", "0a"), of("call", "0a"), of("served", "0a")];
        let of_key = [&first[..], &[of("call", "0c")]].concat();
        assert_eq!(calls(TraceQuestion::Key("a".to_owned())), of_key);
        let of_id = [&first[..], &[of("call", "0b")]].concat();
        assert_eq!(calls(TraceQuestion::Id(format!("{:032x}", 1))), of_id);
        assert_eq!(calls(TraceQuestion::Latest).len(), 5);
        assert!(calls(TraceQuestion::Key("c".to_owned())).is_empty());
    }

    #[test]
    fn the_oldest_go_first() {
        let mut store = TraceStore::default();
        store.add((0..TRACE_SPANS_MAX as u64 + 3).map(|number| span("call", number, number, "")));
        assert_eq!(store.spans.len(), TRACE_SPANS_MAX);
        assert_eq!(store.spans[0].call, format!("{:016x}", 3));
    }
}
