//! The exporter against a collector over HTTP, which decodes what it gets.

use super::*;
use crate::snapshot::{NicSeries, Snapshot};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver as Bodies, channel};

/// Longer than anything takes on a busy host.
const LONG: Duration = Duration::from_secs(60);

/// A collector that answers each request with this status; its paths and bodies.
fn collector(status: &'static str) -> (String, Bodies<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                lines.push(line.trim().to_lowercase());
            }
            let length = lines.iter().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            reader.read_exact(&mut body).unwrap();
            assert!(lines.contains(&"content-type: application/x-protobuf".to_owned()));
            let path = lines[0].split(' ').nth(1).unwrap().to_owned();
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            if sender.send((path, body)).is_err() {
                return;
            }
        }
    });
    (endpoint, bodies)
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

#[test]
fn spans_arrive_at_a_collector_with_their_names_and_the_program_they_are_of() {
    let (endpoint, bodies) = collector("200 OK");
    let exporter =
        OtlpExporter::start(endpoint, Arc::new(SnapshotBoard::open(None, None))).unwrap();
    exporter.queue().unwrap().send(spans()).unwrap();
    let (path, body) = bodies.recv_timeout(LONG).unwrap();
    assert_eq!(path, "/v1/traces");
    let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    let [process] = &request.resource_spans[..] else { panic!("{request:?}") };
    let attributes = &process.resource.as_ref().unwrap().attributes;
    assert_eq!(attributes[0], value::text("service.name", "python"));
    let [below, call] = &process.scope_spans[0].spans[..] else { panic!("{process:?}") };
    assert_eq!((call.trace_id.len(), &call.trace_id[..2]), (16, &[0x4b, 0xf9][..]));
    assert_eq!((call.span_id.len(), &call.parent_span_id), (8, &Vec::new()));
    assert_eq!((&below.parent_span_id, below.name.as_str()), (&call.span_id, "read"));
    assert_eq!(call.end_time_unix_nano - call.start_time_unix_nano, 1500);
    assert_eq!(call.status.as_ref().unwrap().message, "OBJECT_NOT_FOUND");
    assert!(below.status.is_none() && call.attributes.contains(&value::text("perigee.key", "k")));
    drop(exporter);
}

#[test]
fn metrics_are_those_of_the_scrape() {
    let text = "\
# HELP perigee_a_total How many.
# TYPE perigee_a_total counter
perigee_a_total{device=\"e\\\"th0\",route=\"tcp\"} 12
# TYPE perigee_b gauge
perigee_b 0.5
# TYPE perigee_c_seconds histogram
perigee_c_seconds_bucket{device=\"eth0\",le=\"0.1\"} 2
perigee_c_seconds_bucket{device=\"eth0\",le=\"+Inf\"} 5
perigee_c_seconds_sum{device=\"eth0\"} 7.5
perigee_c_seconds_count{device=\"eth0\"} 5
# TYPE perigee_d gauge
no line of ours
";
    let request = metrics::request(text, Duration::from_secs(9), "h");
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
}

#[test]
fn a_snapshot_becomes_metrics_under_the_names_of_the_catalogue() {
    let nic = NicSeries { device: "eth0".to_owned(), receive_bytes: 77, ..NicSeries::default() };
    let snapshot = Snapshot { nics: vec![nic], ..Snapshot::default() };
    let request = metrics::request(&samples(&snapshot).render(), LONG, "h");
    let found = &request.resource_metrics[0].scope_metrics[0].metrics;
    let nic = found.iter().find(|metric| metric.name == "perigee_nic_receive_bytes_total");
    let Some(Data::Sum(sum)) = &nic.unwrap().data else { panic!("{nic:?}") };
    assert_eq!(sum.data_points.len(), 1);
    let decoded = ExportMetricsServiceRequest::decode(request.encode_to_vec().as_slice()).unwrap();
    assert_eq!(decoded, request);
}

#[test]
fn a_collector_that_refuses_or_is_away_holds_up_nothing() {
    let (refusing, bodies) = collector("503 Service Unavailable");
    for endpoint in [refusing.as_str(), "http://127.0.0.1:1"] {
        let board = Arc::new(SnapshotBoard::open(None, None));
        let exporter = OtlpExporter::start(endpoint.to_owned(), board).unwrap();
        let queue = exporter.queue().unwrap();
        for _ in 0..3 * OTLP_QUEUE_LENGTH {
            // A full queue takes none, and is no reason to wait.
            let _ = queue.try_send(spans());
        }
        drop(queue);
        drop(exporter);
    }
    assert_eq!(bodies.try_recv().unwrap().0, "/v1/traces");
}
