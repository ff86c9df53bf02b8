//! Prometheus text format 0.0.4, and OpenMetrics 1.0 with exemplars. Invariant: the output holds
//! every family of the source exactly once, in catalogue order, whatever samples were added.

mod lines;
mod pieces;

use crate::catalogue;
use crate::cell::HistogramTotals;
use crate::family::{Family, MetricKind, MetricSource};
use crate::limits::LABEL_SETS_MAX;
pub use lines::SummaryTotals;
use lines::{exemplar_texts, histogram_lines, label_text, summary_lines};
pub use pieces::Pieces;
use pieces::Rows;
use std::collections::BTreeMap;
use std::fmt::Display;

/// Content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";
/// Content type of [`Samples::render_openmetrics`].
pub const OPENMETRICS_CONTENT_TYPE: &str =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether who sends this `Accept` header likes OpenMetrics better than the plain text.
#[must_use]
pub fn wants_openmetrics(accept: &str) -> bool {
    let weight_of = |wanted: &str| {
        let weight = |range: &str| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(wanted));
            let given = parts.find_map(|part| part.strip_prefix("q="));
            is_it.then(|| given.map_or(Some(1.0), |text| text.parse::<f64>().ok())).flatten()
        };
        accept.split(',').filter_map(weight).fold(0.0, f64::max)
    };
    let openmetrics = weight_of("application/openmetrics-text");
    openmetrics > 0.0 && openmetrics >= weight_of("text/plain")
}

/// Numbers of one scrape, by family.
#[derive(Debug)]
pub struct Samples {
    source: MetricSource,
    lines: BTreeMap<usize, Vec<String>>,
    /// What OpenMetrics has behind lines, by family and number of the line.
    exemplars: BTreeMap<(usize, usize), String>,
    rows: BTreeMap<usize, Rows>,
    refused: Vec<String>,
}

impl Samples {
    /// No numbers yet.
    #[must_use]
    pub fn new(source: MetricSource) -> Self {
        Self {
            source,
            lines: BTreeMap::new(),
            exemplars: BTreeMap::new(),
            rows: BTreeMap::new(),
            refused: Vec::new(),
        }
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
                let first = self.lines.get(&index).map_or(0, Vec::len);
                let exemplars = exemplar_texts(buckets, totals);
                self.exemplars.extend(exemplars.map(|(line, text)| ((index, first + line), text)));
                self.push(index, histogram_lines(family, buckets, labels, totals));
            }
            MetricKind::Counter | MetricKind::Gauge | MetricKind::Summary => {
                self.refused.push(name.to_owned());
            }
        }
    }

    /// Adds a summary; `labels` as for [`Samples::value`].
    pub fn summary(&mut self, name: &str, labels: &[&str], totals: &SummaryTotals) {
        let Some((index, family)) = self.family(name, labels) else {
            return;
        };
        match family.kind {
            MetricKind::Summary => self.push(index, summary_lines(family, labels, totals)),
            _ => self.refused.push(name.to_owned()),
        }
    }

    /// Names that were refused; empty in a sound program, which tests check.
    #[must_use]
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Adds values of a family with one label, which are made when their piece of the text is. They
    /// stand for all values of the family.
    pub fn rows<L: AsRef<str>, V: Display>(
        &mut self,
        name: &str,
        rows: impl Iterator<Item = (L, V)> + Send + 'static,
    ) {
        let Some((index, family)) = self.family(name, &[""]) else {
            return;
        };
        let line = |(label, value): (L, V)| {
            format!("{}{} {value}", family.name, label_text(family, &[label.as_ref()], None))
        };
        self.rows.insert(index, Rows(Box::new(rows.take(LABEL_SETS_MAX).map(line))));
    }

    /// The whole text.
    #[must_use]
    pub fn render(self) -> String {
        self.pieces().collect()
    }

    /// The whole text in pieces, each made when it is asked for.
    #[must_use]
    pub fn pieces(self) -> Pieces {
        Pieces::plain(self.source, self.lines, self.rows)
    }

    /// The whole text as OpenMetrics 1.0, with exemplars.
    #[must_use]
    pub fn render_openmetrics(self) -> String {
        self.openmetrics_pieces().collect()
    }

    /// The whole text as OpenMetrics 1.0 in pieces, each made when it is asked for.
    #[must_use]
    pub fn openmetrics_pieces(self) -> Pieces {
        Pieces::openmetrics(self.source, self.lines, self.rows, self.exemplars)
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

#[cfg(test)]
mod tests;
