//! Lines of samples. Invariant: label values are escaped and of bounded length.

use crate::cell::HistogramTotals;
use crate::exemplar::Exemplar;
use crate::family::{Buckets, Family, MetricKind};
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
    }
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
        lines.push(format!("{name}_bucket{} {seen}", label_text(family, labels, Some(&le))));
    }
    let plain = label_text(family, labels, None);
    #[expect(clippy::cast_precision_loss, reason = "a shown sum needs no more than 53 bits")]
    let sum = totals.sum as f64 / buckets.divisor;
    lines.push(format!("{name}_sum{plain} {sum}"));
    lines.push(format!("{name}_count{plain} {seen}"));
    lines
}

/// `{a="x",le="1"}`, or nothing without labels.
pub(super) fn label_text(family: &Family, values: &[&str], le: Option<&str>) -> String {
    let pairs = family.labels.iter().copied().zip(values.iter().copied());
    let pairs: Vec<String> = pairs
        .chain(le.map(|bound| ("le", bound)))
        .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
        .collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

/// Label value with the three escapes of the format, cut to a bounded length.
fn escaped(value: &str) -> String {
    let end = value.floor_char_boundary(LABEL_VALUE_BYTES_MAX);
    value[..end].replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
