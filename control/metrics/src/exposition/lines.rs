//! Lines of samples. Invariant: label values are escaped and of bounded length.

use crate::cell::HistogramTotals;
use crate::exemplar::Exemplar;
use crate::family::{Buckets, Family, MetricKind, QUANTILES};
use crate::limits::LABEL_VALUE_BYTES_MAX;

pub(super) fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

pub(super) fn zero_lines(family: &Family, text: &mut String) {
    match family.kind {
        MetricKind::Counter | MetricKind::Gauge => push_line(text, &format!("{} 0", family.name)),
        MetricKind::Histogram(buckets) => {
            let lines = histogram_lines(family, buckets, &[], &HistogramTotals::default());
            lines.iter().for_each(|line| push_line(text, line));
        }
        MetricKind::Summary => {
            let lines = summary_lines(family, &[], &SummaryTotals::default());
            lines.iter().for_each(|line| push_line(text, line));
        }
    }
}

/// Numbers of a summary.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SummaryTotals {
    /// The value of each of [`QUANTILES`]; `None` without values.
    pub quantiles: [Option<f64>; QUANTILES.len()],
    /// Sum of all values.
    pub sum: f64,
    /// How many values there are.
    pub count: u64,
}

pub(super) fn summary_lines(
    family: &Family,
    labels: &[&str],
    totals: &SummaryTotals,
) -> Vec<String> {
    let name = family.name;
    let quantiles = QUANTILES.iter().zip(totals.quantiles);
    let mut lines: Vec<String> = quantiles
        .map(|(part, value)| {
            let label = format!("{part:.6}");
            let labels = label_text(family, labels, Some(("quantile", &label)));
            format!("{name}{labels} {}", value.unwrap_or(f64::NAN))
        })
        .collect();
    let plain = label_text(family, labels, None);
    lines.push(format!("{name}_sum{plain} {}", totals.sum));
    lines.push(format!("{name}_count{plain} {}", totals.count));
    lines
}

/// What stands behind the lines of buckets in OpenMetrics, by the number of the line.
pub(super) fn exemplar_texts(
    buckets: &Buckets,
    totals: &HistogramTotals,
) -> impl Iterator<Item = (usize, String)> {
    (0..=buckets.bounds.len()).filter_map(|index| {
        let Exemplar { trace, value, seen_ms } = totals.exemplars.of(index)?;
        #[expect(clippy::cast_precision_loss, reason = "a shown value needs no more than 53 bits")]
        let value = value as f64 / buckets.divisor;
        let (seconds, rest) = (seen_ms / 1000, seen_ms % 1000);
        let text = format!(" # {{trace_id=\"{trace:032x}\"}} {value} {seconds}.{rest:03}");
        Some((index, text))
    })
}

pub(super) fn histogram_lines(
    family: &Family,
    buckets: &Buckets,
    labels: &[&str],
    totals: &HistogramTotals,
) -> Vec<String> {
    let name = family.name;
    let mut lines = Vec::with_capacity(buckets.bounds.len() + 3);
    let mut seen = 0u64;
    for index in 0..=buckets.bounds.len() {
        seen = seen.saturating_add(totals.counts.get(index).copied().unwrap_or(0));
        let le = buckets.le(index);
        lines
            .push(format!("{name}_bucket{} {seen}", label_text(family, labels, Some(("le", &le)))));
    }
    let plain = label_text(family, labels, None);
    #[expect(clippy::cast_precision_loss, reason = "a shown sum needs no more than 53 bits")]
    let sum = totals.sum as f64 / buckets.divisor;
    lines.push(format!("{name}_sum{plain} {sum}"));
    lines.push(format!("{name}_count{plain} {seen}"));
    lines
}

/// `{a="x",le="1"}`, or nothing without labels.
pub(super) fn label_text(family: &Family, values: &[&str], last: Option<(&str, &str)>) -> String {
    let pairs = family.labels.iter().copied().zip(values.iter().copied());
    let pairs: Vec<String> =
        pairs.chain(last).map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

/// Label value with the three escapes of the format, cut to a bounded length.
fn escaped(value: &str) -> String {
    let end = value.floor_char_boundary(LABEL_VALUE_BYTES_MAX);
    value[..end].replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
