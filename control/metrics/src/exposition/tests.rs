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
    let totals = HistogramTotals { counts: vec![1, 0, 2, 0, 0, 0, 0, 4], sum: 99 };
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
