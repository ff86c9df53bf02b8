//! The text format. Invariant: whatever is rendered is read back strictly.

use super::*;
use std::collections::BTreeSet;

/// Reads the text format strictly; panics on anything that is not a comment or a sample.
pub(crate) fn sample_names(text: &str) -> BTreeSet<String> {
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = series.split('{').next().expect("a series has a name");
        if let Some(labels) = series.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            assert!(labels.starts_with('{') && labels.ends_with("\"}"), "{line}");
        }
        name.to_owned()
    };
    text.lines().filter(|line| !line.starts_with("# ")).map(sample).collect()
}

#[test]
fn families_without_samples_are_served_as_zero() {
    let text = Samples::new(MetricSource::Master).render();
    assert!(text.contains("\nmaster_key_count 0\n"));
    assert!(text.contains("\nha_standby_state 0\n"));
    assert!(text.contains("\nmaster_value_size_bytes_bucket{le=\"4096.000000\"} 0\n"));
    assert!(text.contains("\nmaster_value_size_bytes_count 0\n"));
}

#[test]
fn every_family_of_the_source_has_one_type_line() {
    for source in [MetricSource::Master, MetricSource::Client] {
        let text = Samples::new(source).render();
        for family in catalogue::families().filter(|family| family.source == source) {
            let line = format!("# TYPE {} {}\n", family.name, family.kind.word());
            assert_eq!(text.matches(&line).count(), 1, "{line}");
        }
        sample_names(&text);
    }
}

#[test]
fn histograms_are_cumulated() {
    let mut samples = Samples::new(MetricSource::Master);
    let counts = vec![1, 0, 2, 0, 0, 0, 0, 4];
    let totals = HistogramTotals::of(counts, 99);
    samples.histogram("master_value_size_bytes", &[], &totals);
    let text = samples.render();
    for line in [
        "master_value_size_bytes_bucket{le=\"4096.000000\"} 1",
        "master_value_size_bytes_bucket{le=\"262144.000000\"} 3",
        "master_value_size_bytes_bucket{le=\"+Inf\"} 7",
        "master_value_size_bytes_sum 99",
        "master_value_size_bytes_count 7",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}");
    }
}

#[test]
fn label_values_are_escaped_and_cut() {
    let mut samples = Samples::new(MetricSource::Master);
    samples.value("segment_allocated_bytes", &["a\"b\\c\nd"], 1);
    samples.value("segment_allocated_bytes", &[&"x".repeat(10_000)], 2);
    let text = samples.render();
    assert!(text.contains(r#"segment_allocated_bytes{segment="a\"b\\c\nd"} 1"#), "{text}");
    assert!(text.lines().all(|line| line.len() < 600));
}

#[test]
fn names_outside_the_catalogue_are_refused() {
    let mut samples = Samples::new(MetricSource::Master);
    samples.value("master_no_such_thing", &[], 1);
    samples.value("segment_allocated_bytes", &[], 1);
    samples.value("mooncake_transfer_read_bytes", &["real"], 1);
    samples.histogram("master_key_count", &[], &HistogramTotals::default());
    samples.rows("master_key_count", [("a", 1)].into_iter());
    assert_eq!(samples.refused().len(), 5);
    assert!(!samples.render().contains("no_such_thing"));
}

#[test]
fn number_of_label_sets_is_bounded() {
    let mut samples = Samples::new(MetricSource::Master);
    for index in 0..LABEL_SETS_MAX + 10 {
        samples.value("segment_allocated_bytes", &[&index.to_string()], 1);
    }
    let rows = (0..LABEL_SETS_MAX + 10).map(|index| (index.to_string(), 1));
    samples.rows("segment_total_capacity_bytes", rows);
    let text = samples.render();
    assert_eq!(text.matches("\nsegment_allocated_bytes{").count(), LABEL_SETS_MAX);
    assert_eq!(text.matches("\nsegment_total_capacity_bytes{").count(), LABEL_SETS_MAX);
}

#[test]
fn openmetrics_has_requests_behind_buckets_and_the_plain_text_does_not() {
    let samples = || {
        let cells = crate::MasterCells::default();
        cells.record_call(crate::RpcKind::ExistKey, true, 1_500);
        cells.show_call(crate::RpcKind::ExistKey, 0xabc, 1_500);
        let build = crate::BuildInfo { version: "1", commit: "c", reactor: "epoll" };
        Samples::of_master([&cells], &crate::MasterNumbers::default(), build)
    };
    let bucket = "perigee_rpc_duration_seconds_bucket{rpc=\"ExistKey\",le=\"0.000001536\"} 1";
    let text = samples().render_openmetrics();
    let line = text.lines().find(|line| line.starts_with(bucket)).unwrap();
    let exemplar = " # {trace_id=\"00000000000000000000000000000abc\"} 0.0000015 ";
    let seen = line.strip_prefix(bucket).and_then(|rest| rest.strip_prefix(exemplar)).unwrap();
    assert!(seen.parse::<f64>().unwrap() > 1.7e9, "{line}");
    assert_eq!(text.matches("trace_id").count(), 1);
    let plain = samples().render();
    assert!(plain.contains(&format!("\n{bucket}\n")) && !plain.contains("trace_id"));
}

#[test]
fn counters_whose_names_do_not_end_as_openmetrics_wants_have_no_type_there() {
    let text = Samples::new(MetricSource::Client).render_openmetrics();
    assert!(text.contains("# TYPE mooncake_transfer_read_bytes unknown\n"), "{text}");
    assert!(text.contains("# TYPE perigee_retries counter\n"));
    assert!(text.ends_with("# EOF\n"));
    let text = Samples::new(MetricSource::Master).render_openmetrics();
    for line in ["# TYPE perigee_connections gauge", "# TYPE perigee_connections_total unknown"] {
        assert!(text.contains(&format!("{line}\n")), "{line}");
    }
    let mut names: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    names.iter_mut().for_each(|line| *line = line.split(' ').nth(2).unwrap());
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "each family stands once");
}

#[test]
fn openmetrics_is_for_those_who_like_it_no_less_than_plain_text() {
    for (accept, wanted) in [
        ("application/openmetrics-text; version=1.0.0", true),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            true,
        ),
        ("text/plain;version=0.0.4, application/openmetrics-text;q=0.3", false),
        ("application/openmetrics-text;q=0", false),
        ("text/plain", false),
        ("*/*", false),
        ("", false),
    ] {
        assert_eq!(wants_openmetrics(accept), wanted, "{accept}");
    }
}
