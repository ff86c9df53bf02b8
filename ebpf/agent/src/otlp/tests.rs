//! The exporter against a collector over HTTP, which decodes what it gets.

use super::*;
use crate::exemplars::Exemplars;
use crate::snapshot::{NicSeries, Snapshot};
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest,
};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use perigee_flags::ProcessEnvironment;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver as Requests, channel};

/// Longer than anything takes on a busy host.
const LONG: Duration = Duration::from_secs(60);

/// What a collector was sent.
struct Received {
    path: String,
    /// In small letters.
    headers: Vec<String>,
    /// Unpacked.
    body: Vec<u8>,
}

/// A collector that answers one request after the other as the list says: a status with further
/// headers, and a body. The last answer is the one to all that follow.
fn collector(answers: Vec<(&'static str, Vec<u8>)>) -> (String, Requests<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut reader = BufReader::new(stream.unwrap());
            let request = read_request(&mut reader);
            let (status, body) = &answers[number.min(answers.len() - 1)];
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            // Before the answer: with that the exporter may end, and what it sent must be here.
            if sender.send(request).is_err() {
                return;
            }
            reader.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
        }
    });
    (endpoint, requests)
}

fn read_request(reader: &mut impl BufRead) -> Received {
    let lines = reader.by_ref().lines().map(Result::unwrap);
    let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let path = lines[0].split(' ').nth(1).unwrap().to_owned();
    let headers: Vec<String> = lines[1..].iter().map(|line| line.to_lowercase()).collect();
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    if headers.contains(&"content-encoding: gzip".to_owned()) {
        let packed = std::mem::take(&mut body);
        GzDecoder::new(&packed[..]).read_to_end(&mut body).unwrap();
    }
    Received { path, headers, body }
}

fn exporter(endpoint: &str, variables: &[(&str, &str)]) -> OtlpExporter {
    let environment = ProcessEnvironment::of(variables);
    let mut warnings = Vec::new();
    let target = OtlpTarget::of(Some(endpoint), &environment, &mut warnings).unwrap().unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    OtlpExporter::start(target, Arc::new(SnapshotBoard::open(None, None))).unwrap()
}

fn spans() -> Vec<SpanEntry> {
    let call = SpanEntry {
        trace: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        span: "00f067aa0ba902b7".to_owned(),
        kind: "call".to_owned(),
        name: "get".to_owned(),
        key: "k".to_owned(),
        host: "gpu-7".to_owned(),
        pid: 7,
        program: "python".to_owned(),
        bytes: 4096,
        began_us: 1_795_869_663_000_001,
        took_ns: 1500,
        status: -704,
        ..SpanEntry::default()
    };
    let below = SpanEntry {
        span: "00000000000000ff".to_owned(),
        parent: call.span.clone(),
        kind: "transfer".to_owned(),
        name: "read".to_owned(),
        status: 0,
        ..call.clone()
    };
    vec![below, call]
}

/// Waits until this many spans were sent, refused and dropped.
fn await_counts(queue: &ExportQueue, wanted: [u64; 3]) {
    let begun = Instant::now();
    let counts = || queue.counts().results().map(|(_, count)| count);
    while counts() != wanted {
        assert!(begun.elapsed() < LONG, "{:?} instead of {wanted:?}", counts());
        std::thread::yield_now();
    }
}

#[test]
fn spans_arrive_at_a_collector_with_their_names_and_the_program_they_are_of() {
    let (endpoint, requests) = collector(vec![("200 OK", Vec::new())]);
    let variables = [
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment=test"),
    ];
    let exporter = exporter(&endpoint, &variables);
    let queue = exporter.queue().unwrap();
    queue.put(&spans());
    let request = requests.recv_timeout(LONG).unwrap();
    assert_eq!(request.path, "/v1/traces");
    for header in ["content-type: application/x-protobuf", "api-key: a secret"] {
        assert!(request.headers.contains(&header.to_owned()), "{header}");
    }
    let request = ExportTraceServiceRequest::decode(request.body.as_slice()).unwrap();
    let [process] = &request.resource_spans[..] else { panic!("{request:?}") };
    let attributes = &process.resource.as_ref().unwrap().attributes;
    let names = [("service.name", "python"), ("service.instance.id", "gpu-7:7")];
    for (key, value) in names.into_iter().chain([("deployment.environment", "test")]) {
        assert!(attributes.contains(&value::text(key, value)), "{attributes:?}");
    }
    let [below, call] = &process.scope_spans[0].spans[..] else { panic!("{process:?}") };
    assert_eq!((call.trace_id.len(), &call.trace_id[..2]), (16, &[0x4b, 0xf9][..]));
    assert_eq!((call.span_id.len(), &call.parent_span_id), (8, &Vec::new()));
    assert_eq!((&below.parent_span_id, below.name.as_str()), (&call.span_id, "read"));
    assert_eq!(call.end_time_unix_nano - call.start_time_unix_nano, 1500);
    assert_eq!(call.status.as_ref().unwrap().message, "OBJECT_NOT_FOUND");
    assert!(below.status.is_none() && call.attributes.contains(&value::text("perigee.key", "k")));
    await_counts(&queue, [2, 0, 0]);
}

#[test]
fn what_a_collector_cannot_take_now_is_sent_again_after_the_pause_it_asks_for() {
    let (endpoint, requests) = collector(vec![
        ("503 Service Unavailable\r\nretry-after: 1", Vec::new()),
        ("429 Too Many Requests\r\nretry-after: 0", Vec::new()),
        ("200 OK", Vec::new()),
    ]);
    let exporter = exporter(&endpoint, &[]);
    let queue = exporter.queue().unwrap();
    queue.put(&spans());
    let first = requests.recv_timeout(LONG).unwrap().body;
    let begun = Instant::now();
    assert_eq!(requests.recv_timeout(LONG).unwrap().body, first);
    assert!(begun.elapsed() > Duration::from_millis(900), "the pause was kept");
    assert_eq!(requests.recv_timeout(LONG).unwrap().body, first);
    await_counts(&queue, [2, 0, 0]);
}

#[test]
fn what_a_collector_does_not_want_is_counted_and_not_sent_again() {
    let partly = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: 1,
            error_message: "too old".to_owned(),
        }),
    };
    let (endpoint, requests) = collector(vec![
        ("400 Bad Request", b"no".to_vec()),
        ("302 Found\r\nlocation: /elsewhere", Vec::new()),
        ("200 OK", partly.encode_to_vec()),
    ]);
    let exporter = exporter(&endpoint, &[("OTEL_EXPORTER_OTLP_COMPRESSION", "none")]);
    let queue = exporter.queue().unwrap();
    for counts in [[0, 2, 0], [0, 4, 0], [1, 5, 0]] {
        queue.put(&spans());
        let request = requests.recv_timeout(LONG).unwrap();
        assert_eq!(request.path, "/v1/traces");
        assert!(request.headers.iter().all(|line| !line.starts_with("content-encoding")));
        await_counts(&queue, counts);
    }
}

#[test]
fn a_collector_that_is_away_holds_up_nothing_and_what_finds_no_room_is_counted() {
    let exporter = exporter("http://127.0.0.1:1", &[]);
    let queue = exporter.queue().unwrap();
    let many: Vec<SpanEntry> = spans().into_iter().cycle().take(4096).collect();
    let begun = Instant::now();
    while queue.counts().results()[2].1 == 0 {
        assert!(begun.elapsed() < LONG, "nothing was dropped");
        queue.put(&many);
    }
    drop(queue);
    drop(exporter);
}

#[test]
fn what_waits_when_the_agent_ends_is_still_sent() {
    let (endpoint, requests) = collector(vec![("200 OK", Vec::new())]);
    let exporter = exporter(&endpoint, &[]);
    exporter.queue().unwrap().put(&spans());
    drop(exporter);
    assert!(requests.try_recv().is_ok());
}

#[test]
fn metrics_are_those_of_the_scrape() {
    let text = "\
# TYPE perigee_a counter
# HELP perigee_a How many.
perigee_a_total{device=\"e\\\"th0\",route=\"tcp # {trace_id=\\\"\"} 12
# TYPE perigee_b gauge
perigee_b 0.5
# TYPE perigee_c_seconds histogram
# UNIT perigee_c_seconds seconds
perigee_c_seconds_bucket{device=\"eth0\",le=\"0.1\"} 2 # {trace_id=\"00000000000000000000000000000abc\"} 0.05 7.25
perigee_c_seconds_bucket{device=\"eth0\",le=\"+Inf\"} 5
perigee_c_seconds_sum{device=\"eth0\"} 7.5
perigee_c_seconds_count{device=\"eth0\"} 5
# TYPE perigee_d gauge
no line of ours
# EOF
";
    let resource = value::of_agent("h", None, &[("service.name".to_owned(), "a".to_owned())]);
    let request = metrics::request(text, Duration::from_secs(9), resource);
    let attributes = &request.resource_metrics[0].resource.as_ref().unwrap().attributes;
    assert_eq!(
        attributes[..2],
        [value::text("service.name", "a"), value::text("service.instance.id", "h")]
    );
    let found = &request.resource_metrics[0].scope_metrics[0].metrics;
    let names: Vec<&str> = found.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["perigee_a_total", "perigee_b", "perigee_c_seconds"]);
    let Some(Data::Sum(sum)) = &found[0].data else { panic!("{found:?}") };
    assert!(sum.is_monotonic && sum.data_points[0].time_unix_nano == 9_000_000_000);
    assert_eq!(sum.data_points[0].attributes[0], value::text("device", "e\"th0"));
    let Some(Data::Histogram(histogram)) = &found[2].data else { panic!("{found:?}") };
    let point = &histogram.data_points[0];
    assert_eq!((&point.bucket_counts, &point.explicit_bounds), (&vec![2, 3], &vec![0.1]));
    assert_eq!((point.count, point.sum), (5, Some(7.5)));
    let [exemplar] = &point.exemplars[..] else { panic!("{point:?}") };
    assert_eq!((exemplar.trace_id[14..].to_vec(), exemplar.trace_id.len()), (vec![0x0a, 0xbc], 16));
    assert_eq!(exemplar.time_unix_nano, 7_250_000_000);
}

#[test]
fn a_snapshot_becomes_metrics_under_the_names_of_the_catalogue() {
    let nic = NicSeries { device: "eth0".to_owned(), receive_bytes: 77, ..NicSeries::default() };
    let snapshot = Snapshot { nics: vec![nic], ..Snapshot::default() };
    let text = samples(&snapshot, &Exemplars::default()).render_openmetrics();
    let request = metrics::request(&text, LONG, value::of_agent("h", Some("it"), &[]));
    let found = &request.resource_metrics[0].scope_metrics[0].metrics;
    let nic = found.iter().find(|metric| metric.name == "perigee_nic_receive_bytes_total");
    let nic = nic.unwrap();
    let Some(Data::Sum(sum)) = &nic.data else { panic!("{nic:?}") };
    assert_eq!((sum.data_points.len(), nic.unit.as_str()), (1, "By"));
    let decoded = ExportMetricsServiceRequest::decode(request.encode_to_vec().as_slice()).unwrap();
    assert_eq!(decoded, request);
}
