//! A call of a program with what lies below it, as lines. Invariant: every span is in one line.

use super::length::{length_text, moment_text};
use crate::columns::aligned;
use crate::size::size_text;
use perigee_agent::SpanEntry;
use perigee_schemas::Status;
use std::collections::BTreeMap;

/// A call and the spans of its request below it.
pub(super) struct CallLines<'a> {
    call: &'a SpanEntry,
    /// In the order in which they began.
    below: Vec<&'a SpanEntry>,
    /// What servers say of it.
    served: Vec<&'a SpanEntry>,
}

impl<'a> CallLines<'a> {
    /// The calls of a request.
    pub(super) fn of(spans: &'a [SpanEntry], trace: &str) -> Vec<Self> {
        let own = || spans.iter().filter(|span| span.trace == trace);
        let make = |call: &'a SpanEntry| {
            let part = own().filter(|span| span.call == call.call && span.kind != "call");
            let (below, served) = part.partition(|span| !is_of_server(span));
            Self { call, below, served }
        };
        own().filter(|span| span.kind == "call").map(make).collect()
    }

    /// A line for the call and for each span below it.
    pub(super) fn text(&self) -> String {
        let mut served = by_name(&self.served);
        let mut rows = Vec::new();
        for span in &self.below {
            rows.push(self.row(span));
            let answers = served.get_mut(&step(span)).map(Vec::pop);
            rows.extend(answers.flatten().map(server_row));
        }
        rows.extend(served.into_values().flatten().map(server_row));
        let hidden = (self.call.parts as usize).saturating_sub(self.below.len());
        let more = match hidden {
            0 => String::new(),
            _ => format!("  and {hidden} more spans, which found no place\n"),
        };
        format!("{}\n{}{more}", self.head(), aligned(2, &rows))
    }

    fn head(&self) -> String {
        let SpanEntry { name, key, count, bytes, took_ns, host, pid, program, .. } = self.call;
        let more = match count {
            0 | 1 => String::new(),
            _ => format!(" and {} more", count - 1),
        };
        format!(
            "{}  {name} {}{more}  {}  {}  {}  {host} {program}[{pid}]",
            moment_text(self.call.began_us),
            key.escape_debug(),
            size_text(*bytes),
            length_text(*took_ns),
            outcome(self.call.status),
        )
    }

    fn row(&self, span: &SpanEntry) -> [String; 5] {
        let after = span.began_us.saturating_sub(self.call.began_us).saturating_mul(1000);
        [
            format!("+{}", length_text(after)),
            what(span),
            length_text(span.took_ns),
            place(span),
            details(span),
        ]
    }
}

/// What servers say of calls that no agent has.
pub(super) fn alone(spans: &[SpanEntry], trace: &str) -> String {
    let calls = CallLines::of(spans, trace);
    let known = |span: &SpanEntry| calls.iter().any(|call| call.call.call == span.call);
    let left = spans.iter().filter(|span| span.trace == trace && !known(span));
    let rows: Vec<[String; 5]> = left.map(server_row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("without the program's own span:\n{}", aligned(2, &rows)),
    }
}

/// The latest calls, one a line.
pub(super) fn list(spans: &[SpanEntry]) -> String {
    let calls = spans.iter().filter(|span| span.kind == "call");
    let row = |span: &SpanEntry| {
        let bytes = size_text(span.bytes);
        let (moment, took) = (moment_text(span.began_us), length_text(span.took_ns));
        let (trace, name, key) = (span.trace.clone(), span.name.clone(), span.key.clone());
        let program = format!("{}[{}]", span.program, span.pid);
        [moment, took, bytes, outcome(span.status), trace, name, key, program]
    };
    aligned(0, &calls.map(row).collect::<Vec<_>>())
}

/// The spans of servers by the step that they belong to, the first one last.
fn by_name<'a>(served: &[&'a SpanEntry]) -> BTreeMap<(bool, String), Vec<&'a SpanEntry>> {
    let mut steps: BTreeMap<_, Vec<&SpanEntry>> = BTreeMap::new();
    for span in served.iter().rev() {
        steps.entry(step(span)).or_default().push(span);
    }
    steps
}

/// What a span of the program and one of a server have in common.
fn step(span: &SpanEntry) -> (bool, String) {
    (matches!(span.kind.as_str(), "master" | "answered"), span.name.clone())
}

fn is_of_server(span: &SpanEntry) -> bool {
    matches!(span.kind.as_str(), "served" | "answered")
}

fn server_row(span: &SpanEntry) -> [String; 5] {
    let by = format!("{} by {} {}[{}]", span.kind, span.host, span.program, span.pid);
    [String::new(), format!("  {by}"), length_text(span.took_ns), place(span), details(span)]
}

fn what(span: &SpanEntry) -> String {
    match span.kind.as_str() {
        "transfer" => format!("{} {}", span.name, size_text(span.bytes)),
        _ => span.name.clone(),
    }
}

/// From where to where.
fn place(span: &SpanEntry) -> String {
    let SpanEntry { device, peer, route, .. } = span;
    match (span.kind.as_str(), device.as_str()) {
        ("master", _) => format!("master {peer}"),
        ("answered", _) => format!("from {peer}"),
        (_, "") if peer.is_empty() => route.clone(),
        (_, "") => format!("{peer} ({route})"),
        _ => format!("{device} > {peer} ({route})"),
    }
}

/// Stages that took any time, and what went wrong.
fn details(span: &SpanEntry) -> String {
    let served = if span.kind == "transfer" || span.kind == "served" { "copied" } else { "served" };
    let wire = match span.kind.as_str() {
        "master" | "transfer" if span.served_ns > 0 => span.wire_ns(),
        _ => 0,
    };
    let stages = [
        ("queued", span.queue_ns),
        ("waited", span.waited_ns),
        (served, span.served_ns),
        ("disk", span.disk_ns),
        ("wire", wire),
    ];
    let stages = stages.into_iter().filter(|(_, length)| *length > 0);
    let mut parts: Vec<String> =
        stages.map(|(name, length)| format!("{name} {}", length_text(length))).collect();
    if span.kind == "transfer" && span.parts > 1 {
        parts.push(format!("in {} exchanges", span.parts));
    }
    if span.status != 0 {
        parts.push(outcome(span.status));
    }
    parts.join(", ")
}

fn outcome(status: i32) -> String {
    match Status::from_code(status) {
        Some(Status::Ok) => "ok".to_owned(),
        Some(known) => format!("{} {status}", known.name()),
        None => format!("code {status}"),
    }
}
