//! Metrics as the protocol has them, made of the text that Prometheus gets: one list of names and
//! values for both. Invariant: a line that is none of ours is left out, never an error.

use super::value::{resource, scope, text};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum,
};
use std::collections::BTreeMap;
use std::time::Duration;

type Labels = Vec<(String, String)>;

/// The series of a family, while its lines are read.
#[derive(Default)]
struct FamilyLines<'a> {
    kind: &'a str,
    help: &'a str,
    values: Vec<(Labels, f64)>,
    histograms: BTreeMap<Labels, HistogramLines>,
}

#[derive(Default)]
struct HistogramLines {
    /// Upper bounds and how many values are at most that.
    buckets: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

/// A request with all that stands in the text of a scrape.
pub(super) fn request(text: &str, taken: Duration, host: &str) -> ExportMetricsServiceRequest {
    let taken_ns = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
    let families = families(text).into_iter();
    let metrics = families.filter_map(|(name, family)| family.metric(name, taken_ns)).collect();
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource(host, "perigee-agent", None)),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope()),
                metrics,
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    }
}

fn families(text: &str) -> BTreeMap<&str, FamilyLines<'_>> {
    let mut families: BTreeMap<&str, FamilyLines<'_>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            families.entry(name).or_default().kind = kind;
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            families.entry(name).or_default().help = help;
        } else if let Some((name, labels, value)) = series(line) {
            add(&mut families, name, labels, value);
        }
    }
    families
}

fn add<'a>(
    families: &mut BTreeMap<&'a str, FamilyLines<'a>>,
    name: &'a str,
    mut labels: Labels,
    value: f64,
) {
    if let Some(family) = families.get_mut(name) {
        return family.values.push((labels, value));
    }
    let part = ["_bucket", "_sum", "_count"].into_iter().find(|part| name.ends_with(part));
    let Some((part, family)) = part.and_then(|part| {
        let family = families.get_mut(name.strip_suffix(part)?)?;
        (family.kind == "histogram").then_some((part, family))
    }) else {
        return;
    };
    let bound = labels.iter().position(|(key, _)| key == "le").map(|at| labels.remove(at).1);
    let lines = family.histograms.entry(labels).or_default();
    match (part, bound.and_then(|bound| bound.parse().ok())) {
        ("_bucket", Some(bound)) => lines.buckets.push((bound, value)),
        ("_sum", _) => lines.sum = value,
        ("_count", _) => lines.count = value,
        _ => {}
    }
}

impl FamilyLines<'_> {
    fn metric(self, name: &str, taken_ns: u64) -> Option<Metric> {
        let temporality = AggregationTemporality::Cumulative as i32;
        let points =
            || self.values.iter().map(|(labels, value)| number_point(labels, *value, taken_ns));
        let data = match self.kind {
            "counter" => Data::Sum(Sum {
                data_points: points().collect(),
                aggregation_temporality: temporality,
                is_monotonic: true,
            }),
            "gauge" => Data::Gauge(Gauge { data_points: points().collect() }),
            "histogram" => {
                let lines = self.histograms.iter();
                let points = lines.map(|(labels, lines)| lines.point(labels, taken_ns));
                let data_points = points.collect();
                Data::Histogram(Histogram { data_points, aggregation_temporality: temporality })
            }
            _ => return None,
        };
        let is_empty = self.values.is_empty() && self.histograms.is_empty();
        let (name, description) = (name.to_owned(), self.help.to_owned());
        (!is_empty).then(|| Metric { name, description, data: Some(data), ..Metric::default() })
    }
}

fn number_point(labels: &Labels, value: f64, taken_ns: u64) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(labels),
        time_unix_nano: taken_ns,
        value: Some(Value::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

impl HistogramLines {
    /// Prometheus counts all below a bound, the protocol those between two.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts are whole, and a negative one becomes 0"
    )]
    fn point(&self, labels: &Labels, taken_ns: u64) -> HistogramDataPoint {
        let mut below = 0.0;
        let counts = self.buckets.iter().map(|(_, count)| {
            let own = count - below;
            below = *count;
            own as u64
        });
        let bounds = self.buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite());
        HistogramDataPoint {
            attributes: attributes(labels),
            time_unix_nano: taken_ns,
            count: self.count as u64,
            sum: Some(self.sum),
            bucket_counts: counts.collect(),
            explicit_bounds: bounds.collect(),
            ..HistogramDataPoint::default()
        }
    }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    labels.iter().map(|(key, value)| text(key, value)).collect()
}

/// Name, labels and value of a line.
fn series(line: &str) -> Option<(&str, Labels, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    match series.split_once('{') {
        None => Some((series, Vec::new(), value)),
        Some((name, labels)) => Some((name, labels_of(labels.strip_suffix('}')?)?, value)),
    }
}

/// Labels without the braces around them, such as `a="b",c="d\"e"`.
fn labels_of(mut rest: &str) -> Option<Labels> {
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (key, after) = rest.split_once("=\"")?;
        let (mut value, mut letters) = (String::new(), after.char_indices());
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    letter => letter,
                }),
                (_, letter) => value.push(letter),
            }
        };
        labels.push((key.to_owned(), value));
        rest = after[end + 1..].trim_start_matches(',');
    }
    Some(labels)
}
