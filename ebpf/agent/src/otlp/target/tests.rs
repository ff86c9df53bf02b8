//! The flag and the standard variables.

use super::*;

/// URLs of traces and metrics, and the warnings.
fn urls(flag: Option<&str>, variables: &[(&str, &str)]) -> ([Option<String>; 2], Vec<String>) {
    let mut warnings = Vec::new();
    let environment = ProcessEnvironment::of(variables);
    let target = OtlpTarget::of(flag, &environment, &mut warnings).unwrap();
    let (traces, metrics) = target.map_or((None, None), |it| (it.traces, it.metrics));
    ([traces, metrics].map(|signal| signal.map(|signal| signal.url)), warnings)
}

fn both(base: &str) -> [Option<String>; 2] {
    Signal::ALL.map(|signal| Some(with_path(base, signal)))
}

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[test]
fn the_flag_goes_before_variables_and_paths_are_added() {
    for given in ["http://a:1", "http://a:1/", "http://a:1/v1/traces", " http://a:1/v1/metrics/"] {
        let found = urls(Some(given), &[(ENDPOINT, "http://b:2"), ("OTEL_SDK_DISABLED", "true")]);
        assert_eq!(found, (both("http://a:1"), Vec::new()), "{given}");
    }
    assert_eq!(urls(None, &[(ENDPOINT, "https://b:2/in")]), (both("https://b:2/in"), Vec::new()));
    assert_eq!(urls(None, &[(ENDPOINT, "")]), ([None, None], Vec::new()));
    assert_eq!(urls(None, &[]), ([None, None], Vec::new()));
}

#[test]
fn an_endpoint_of_one_signal_is_taken_as_it_is() {
    let variables =
        [(ENDPOINT, "http://b:2"), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:3/in")];
    let metrics = Some("http://b:2/v1/metrics".to_owned());
    assert_eq!(urls(None, &variables), ([Some("http://c:3/in".to_owned()), metrics], Vec::new()));
    assert_eq!(urls(None, &variables[1..]).0, [Some("http://c:3/in".to_owned()), None]);
}

#[test]
fn variables_that_cannot_be_used_are_one_warning_each_and_keep_no_agent_from_starting() {
    for (value, reason) in [
        ("http://b:4317", "4317"),
        ("b:4318", "http://"),
        ("unix:///run/otel", "http://"),
        ("http://", "URL"),
        ("http://user:word@b:1", "HEADERS"),
        ("http://b:1?x=1", "query"),
    ] {
        let (found, warnings) = urls(None, &[(ENDPOINT, value)]);
        assert_eq!((found, warnings.len()), ([None, None], 1), "{value} {warnings:?}");
        let names_it = warnings[0].contains(ENDPOINT) && warnings[0].contains(reason);
        assert!(names_it && !warnings[0].contains("word"), "{warnings:?}");
        let found = urls(Some("http://a:1"), &[(ENDPOINT, value)]);
        assert_eq!(found, (both("http://a:1"), Vec::new()));
    }
    let grpc = [(ENDPOINT, "http://b:1"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    assert_eq!((urls(None, &grpc).0, urls(None, &grpc).1.len()), ([None, None], 1));
    let http = [(ENDPOINT, "http://b:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")];
    assert_eq!(urls(None, &http), (both("http://b:4317"), Vec::new()));
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_HEADERS", "a b=1"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "word"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/no/such/file"),
        ("OTEL_RESOURCE_ATTRIBUTES", "word"),
    ] {
        let (found, warnings) = urls(Some("https://a:1"), &[(name, value)]);
        assert_eq!((found, warnings.len()), (both("https://a:1"), 1), "{warnings:?}");
        assert!(warnings[0].contains(name) && !warnings[0].contains("a b"), "{warnings:?}");
    }
}

#[test]
fn switches_of_the_standard_are_switches_here() {
    let with = |name, value| urls(None, &[(ENDPOINT, "http://b:2"), (name, value)]).0;
    assert_eq!(with("OTEL_SDK_DISABLED", "TRUE"), [None, None]);
    assert_eq!(with("OTEL_SDK_DISABLED", "false"), both("http://b:2"));
    assert_eq!(with("OTEL_TRACES_EXPORTER", "none"), [None, both("http://b:2")[1].clone()]);
    assert_eq!(with("OTEL_METRICS_EXPORTER", "console, otlp"), both("http://b:2"));
    let flag = urls(Some("http://a:1"), &[("OTEL_METRICS_EXPORTER", "prometheus")]);
    assert_eq!(flag.0, [both("http://a:1")[0].clone(), None]);
}

#[test]
fn a_flag_that_names_no_collector_is_refused_without_secrets() {
    for given in ["b:2", "ftp://b:2", "http://user:word@b:2"] {
        let refused = OtlpTarget::of(Some(given), &ProcessEnvironment::default(), &mut Vec::new());
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("http://127.0.0.1:4318") && !text.contains("word"), "{text}");
    }
}

#[test]
fn headers_are_decoded_and_not_shown() {
    let variables = [
        (ENDPOINT, "http://b:2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20word, x=1"),
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "y=2"),
    ];
    let environment = ProcessEnvironment::of(&variables);
    let target = OtlpTarget::of(None, &environment, &mut Vec::new()).unwrap().unwrap();
    let headers = |signal: &Option<SignalTarget>| signal.clone().unwrap().headers;
    assert_eq!(headers(&target.traces)[0], ("authorization".to_owned(), "Basic word".to_owned()));
    assert_eq!(headers(&target.metrics), [("y".to_owned(), "2".to_owned())]);
    assert!(!format!("{target:?}").contains("word"));
}
