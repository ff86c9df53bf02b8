//! Spans as the protocol has them. Invariant: names of spans and requests stay what `perigee trace`
//! shows.

use super::value::{number, of_process, scope, text};
use crate::traces::SpanEntry;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use perigee_schemas::Status as CallStatus;
use std::collections::BTreeMap;

/// A request with all of these, process by process.
pub(super) fn request(
    spans: &[SpanEntry],
    given: &[(String, String)],
) -> ExportTraceServiceRequest {
    let mut processes: BTreeMap<_, Vec<Span>> = BTreeMap::new();
    for span in spans {
        let process = (span.host.as_str(), span.program.as_str(), span.pid);
        processes.entry(process).or_default().push(converted(span));
    }
    let resource_spans = processes.into_iter().map(|((host, program, pid), spans)| ResourceSpans {
        resource: Some(of_process(host, program, pid, given)),
        scope_spans: vec![ScopeSpans { scope: Some(scope()), spans, ..ScopeSpans::default() }],
        ..ResourceSpans::default()
    });
    ExportTraceServiceRequest { resource_spans: resource_spans.collect() }
}

fn converted(span: &SpanEntry) -> Span {
    let kind = match span.kind.as_str() {
        "served" | "answered" => SpanKind::Server,
        "master" | "transfer" => SpanKind::Client,
        _ => SpanKind::Internal,
    };
    let begun = span.began_us.saturating_mul(1000);
    Span {
        trace_id: bytes(&span.trace),
        span_id: bytes(&span.span),
        parent_span_id: bytes(&span.parent),
        name: span.name.clone(),
        kind: kind as i32,
        start_time_unix_nano: begun,
        end_time_unix_nano: begun.saturating_add(span.took_ns),
        attributes: attributes(span),
        status: (span.status != 0).then(|| Status {
            message: CallStatus::from_code(span.status).map_or("", CallStatus::name).to_owned(),
            code: StatusCode::Error as i32,
        }),
        ..Span::default()
    }
}

/// What is known; texts that are empty and numbers that are 0 are left out.
fn attributes(span: &SpanEntry) -> Vec<KeyValue> {
    let texts = [
        ("perigee.key", &span.key),
        ("perigee.device", &span.device),
        ("perigee.route", &span.route),
        ("network.peer.address", &span.peer),
    ];
    let numbers = [
        ("perigee.bytes", span.bytes),
        ("perigee.count", span.count.into()),
        ("perigee.parts", span.parts.into()),
        ("perigee.queue_ns", span.queue_ns),
        ("perigee.waited_ns", span.waited_ns),
        ("perigee.served_ns", span.served_ns),
        ("perigee.disk_ns", span.disk_ns),
    ];
    let texts = texts.into_iter().filter(|(_, value)| !value.is_empty());
    let numbers = numbers.into_iter().filter(|(_, value)| *value > 0);
    texts
        .map(|(key, value)| text(key, value))
        .chain(numbers.map(|(key, value)| number(key, value)))
        .collect()
}

/// What pairs of digits stand for; digits that are none stand for nothing.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<_>>().unwrap_or_default()
}
