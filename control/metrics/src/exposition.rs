//! Prometheus text format 0.0.4. Invariant: the output holds every family of the source exactly
//! once, in catalogue order, whatever samples were added.

use crate::catalogue;
use crate::cell::HistogramTotals;
use crate::family::{Buckets, Family, MetricKind, MetricSource};
use crate::limits::{LABEL_SETS_MAX, LABEL_VALUE_BYTES_MAX};
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

/// Content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";
/// Content type of [`Samples::render_openmetrics`].
pub const OPENMETRICS_CONTENT_TYPE: &str =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Numbers of one scrape, by family.
#[derive(Debug)]
pub struct Samples {
    source: MetricSource,
    lines: BTreeMap<usize, Vec<String>>,
    refused: Vec<String>,
}

impl Samples {
    /// No numbers yet.
    #[must_use]
    pub fn new(source: MetricSource) -> Self {
        Self { source, lines: BTreeMap::new(), refused: Vec::new() }
    }

    /// Adds the value of a counter or gauge; `labels` are values in the family's label order.
    /// A name or number of labels that the catalogue does not have is refused, not served.
    pub fn value(&mut self, name: &str, labels: &[&str], value: impl Display) {
        let Some((index, family)) = self.family(name, labels) else {
            return;
        };
        let line = format!("{name}{} {value}", label_text(family, labels, None));
        self.push(index, vec![line]);
    }

    /// Adds a histogram; `labels` as for [`Samples::value`].
    pub fn histogram(&mut self, name: &str, labels: &[&str], totals: &HistogramTotals) {
        let Some((index, family)) = self.family(name, labels) else {
            return;
        };
        match family.kind {
            MetricKind::Histogram(buckets) => {
                self.push(index, histogram_lines(family, buckets, labels, totals));
            }
            MetricKind::Counter | MetricKind::Gauge => self.refused.push(name.to_owned()),
        }
    }

    /// Names that were refused; empty in a sound program, which tests check.
    #[must_use]
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// The whole text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(64 * 1024);
        for (index, family) in catalogue::families().enumerate() {
            if family.source != self.source {
                continue;
            }
            let _ = writeln!(text, "# HELP {} {}", family.name, family.help);
            let _ = writeln!(text, "# TYPE {} {}", family.name, family.kind.word());
            match self.lines.get(&index) {
                Some(lines) => lines.iter().for_each(|line| push_line(&mut text, line)),
                None if family.labels.is_empty() => zero_lines(family, &mut text),
                None => {}
            }
        }
        text
    }

    /// The whole text as OpenMetrics 1.0. Only for sources whose counters end in `_total`.
    #[must_use]
    pub fn render_openmetrics(&self) -> String {
        let mut text = String::with_capacity(64 * 1024);
        for (index, family) in catalogue::families().enumerate() {
            if family.source != self.source {
                continue;
            }
            // There a family is named without the ending of its samples, and ends in its unit.
            let name = family.name.strip_suffix("_total").unwrap_or(family.name);
            let _ = writeln!(text, "# TYPE {name} {}", family.kind.word());
            if name.ends_with(&format!("_{}", family.unit)) {
                let _ = writeln!(text, "# UNIT {name} {}", family.unit);
            }
            let _ = writeln!(text, "# HELP {name} {}", family.help);
            match self.lines.get(&index) {
                Some(lines) => lines.iter().for_each(|line| push_line(&mut text, line)),
                None if family.labels.is_empty() => zero_lines(family, &mut text),
                None => {}
            }
        }
        text.push_str("# EOF\n");
        text
    }

    fn family(&mut self, name: &str, labels: &[&str]) -> Option<(usize, &'static Family)> {
        let found = catalogue::find(name).filter(|(_, family)| {
            family.source == self.source && family.labels.len() == labels.len()
        });
        if found.is_none() {
            self.refused.push(name.to_owned());
        }
        found
    }

    fn push(&mut self, index: usize, lines: Vec<String>) {
        let known = self.lines.entry(index).or_default();
        if known.len() < LABEL_SETS_MAX * lines.len() {
            known.extend(lines);
        }
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn zero_lines(family: &Family, text: &mut String) {
    match family.kind {
        MetricKind::Counter | MetricKind::Gauge => push_line(text, &format!("{} 0", family.name)),
        MetricKind::Histogram(buckets) => {
            let lines = histogram_lines(family, buckets, &[], &HistogramTotals::default());
            lines.iter().for_each(|line| push_line(text, line));
        }
    }
}

fn histogram_lines(
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
fn label_text(family: &Family, values: &[&str], le: Option<&str>) -> String {
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

#[cfg(test)]
mod tests;
