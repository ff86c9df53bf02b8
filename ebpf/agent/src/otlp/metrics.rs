//! Metrics as the protocol has them, made of the text that Prometheus gets as OpenMetrics: one list
//! of names, values and exemplars for both. Invariant: a line that is none of ours is left out,
//! never an error.

use super::value::{scope, text};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, exemplar,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use perigee_metrics::catalogue;
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
    exemplars: Vec<Exemplar>,
    sum: f64,
    count: f64,
}

/// A request with all that stands in the text of a scrape.
pub(super) fn request(
    text: &str,
    taken: Duration,
    resource: Resource,
) -> ExportMetricsServiceRequest {
    let taken_ns = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
    let families = families(text).into_iter();
    let metrics = families.filter_map(|(name, family)| family.metric(name, taken_ns)).collect();
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
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
        } else if !line.starts_with('#') {
            let (line, exemplar) = with_exemplar(line);
            if let Some((name, labels, value)) = series(line) {
                add(&mut families, name, labels, value, exemplar);
            }
        }
    }
    families
}

fn add<'a>(
    families: &mut BTreeMap<&'a str, FamilyLines<'a>>,
    name: &'a str,
    mut labels: Labels,
    value: f64,
    exemplar: Option<Exemplar>,
) {
    // A counter is named without the ending of its samples.
    let family = name.strip_suffix("_total").unwrap_or(name);
    if let Some(family) = families.get_mut(family) {
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
        ("_bucket", Some(bound)) => {
            lines.buckets.push((bound, value));
            lines.exemplars.extend(exemplar);
        }
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
        let name = match self.kind {
            "counter" => format!("{name}_total"),
            _ => name.to_owned(),
        };
        let is_empty = self.values.is_empty() && self.histograms.is_empty();
        (!is_empty).then(|| Metric {
            unit: unit(&name),
            name,
            description: self.help.to_owned(),
            data: Some(data),
            ..Metric::default()
        })
    }
}

/// The unit of a family as UCUM has it; none for what counts nothing, because readers make a ratio
/// of `1`.
fn unit(name: &str) -> String {
    match catalogue::find(name).map(|(_, family)| family.unit) {
        Some("seconds") => "s".to_owned(),
        Some("bytes") => "By".to_owned(),
        Some("bytes_per_second") => "By/s".to_owned(),
        None | Some("none") => String::new(),
        Some(things) => format!("{{{things}}}"),
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
            exemplars: self.exemplars.clone(),
            ..HistogramDataPoint::default()
        }
    }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    labels.iter().map(|(key, value)| text(key, value)).collect()
}

/// A line without the exemplar behind it.
fn with_exemplar(line: &str) -> (&str, Option<Exemplar>) {
    match line.rsplit_once(" # {trace_id=\"") {
        Some((series, text)) => (series, exemplar(text)),
        None => (line, None),
    }
}

/// What stands behind `trace_id="`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "moments are of our time, and a negative one becomes 0"
)]
fn exemplar(text: &str) -> Option<Exemplar> {
    let (trace, rest) = text.split_once("\"} ")?;
    let (value, seconds) = rest.split_once(' ')?;
    let trace = u128::from_str_radix(trace, 16).ok()?;
    let seconds: f64 = seconds.parse().ok()?;
    Some(Exemplar {
        time_unix_nano: (seconds * 1e3).round() as u64 * 1_000_000,
        trace_id: trace.to_be_bytes().to_vec(),
        value: Some(exemplar::Value::AsDouble(value.parse().ok()?)),
        ..Exemplar::default()
    })
}

/// Name, labels and value of a line.
fn series(line: &str) -> Option<(&str, Labels, f64)> {
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
