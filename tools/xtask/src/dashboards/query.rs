//! Names and labels of a query against the catalogue. Not a parser of the whole language: it knows
//! names, selectors and groupings, which is where mistakes are made.

use perigee_metrics::catalogue;
use perigee_metrics::family::{Family, MetricKind};
use std::collections::BTreeSet;

/// Labels that a scrape or a histogram adds.
const ADDED: [&str; 5] = ["instance", "job", "le", "quantile", "cluster"];
const OURS: [&str; 3] = ["perigee_", "master_", "mooncake_"];
/// What Prometheus itself records of each target.
const UP: &str = "up";

/// Whether a word is meant as the name of a series: of the catalogue, of a recording rule, or
/// misspelt.
pub(super) fn is_series(word: &str) -> bool {
    word == UP
        || word.contains(':')
        || OURS.iter().any(|prefix| word.starts_with(prefix))
        || family(word).is_some()
}

/// What is wrong with a query; empty if nothing is.
pub(super) fn check(expr: &str, recorded: &BTreeSet<String>) -> Vec<String> {
    let mut findings = Vec::new();
    let mut labels: BTreeSet<&str> = BTreeSet::from(ADDED);
    let mut names = 0;
    let unquoted = without_strings(expr);
    let has_recorded = words(&unquoted).any(|(word, _)| recorded.contains(word));
    for (word, _) in words(&unquoted) {
        if word.contains(':') {
            names += 1;
            if !recorded.contains(word) {
                findings.push(format!("no rule records {word}"));
            }
        } else if word == UP {
            names += 1;
        } else if is_series(word) {
            names += 1;
            match family(word) {
                Some(family) => labels.extend(family.labels),
                None => findings.push(format!("the catalogue has no {word}")),
            }
        }
    }
    if names == 0 {
        findings.push("it asks for no metric".to_owned());
    }
    // The labels of a recording rule are those of its own query, which is checked where it stands.
    if !has_recorded {
        let used = used_labels(&unquoted);
        let unknown = used.iter().filter(|label| !labels.contains(label.as_str()));
        findings.extend(unknown.map(|label| format!("no metric of it has the label {label}")));
    }
    findings
}

/// The family of a sample's name, which for histograms has an ending of its own, and for summaries
/// may have one.
pub(super) fn family(sample: &str) -> Option<&'static Family> {
    if let Some((_, family)) = catalogue::find(sample) {
        return (!matches!(family.kind, MetricKind::Histogram(_))).then_some(family);
    }
    let ends = ["_bucket", "_sum", "_count"];
    let (base, end) = ends.iter().find_map(|end| Some((sample.strip_suffix(end)?, *end)))?;
    let (_, family) = catalogue::find(base)?;
    let has_it = match family.kind {
        MetricKind::Histogram(_) => true,
        MetricKind::Summary => end != "_bucket",
        MetricKind::Counter | MetricKind::Gauge => false,
    };
    has_it.then_some(family)
}

pub(super) fn without_strings(expr: &str) -> String {
    let mut inside = false;
    let keep = |character: char| {
        if character == '"' {
            inside = !inside;
            return '"';
        }
        if inside { ' ' } else { character }
    };
    expr.chars().map(keep).collect()
}

/// Words with what follows them.
pub(super) fn words(expr: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '$';
    let mut rest = expr;
    std::iter::from_fn(move || {
        let begin = rest.find(is_word)?;
        let end = rest[begin..].find(|c| !is_word(c)).map_or(rest.len(), |n| begin + n);
        let word = &rest[begin..end];
        rest = &rest[end..];
        Some((word, rest))
    })
}

/// Labels in selectors and after `by`, `on`, `without`, `group_left`.
fn used_labels(expr: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in expr.split('{').skip(1) {
        let selector = part.split('}').next().unwrap_or("");
        for matcher in selector.split(',') {
            let name = matcher.split(['=', '!', '~']).next().unwrap_or("").trim();
            if !name.is_empty() {
                found.insert(name.to_owned());
            }
        }
    }
    for (word, rest) in words(expr) {
        let list = rest.trim_start().strip_prefix('(');
        if let Some(list) = list.filter(|_| matches!(word, "by" | "on" | "without" | "ignoring")) {
            let names = list.split(')').next().unwrap_or("").split(',').map(str::trim);
            found.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(expr: &str) -> Vec<String> {
        check(expr, &BTreeSet::from(["perigee:nic:rate".to_owned()]))
    }

    #[test]
    fn queries_over_the_catalogue_are_sound() {
        let sound = [
            "sum by (device) (rate(perigee_nic_receive_bytes_total{kind!=\"virtual\"}[1m]))",
            "histogram_quantile(0.99, sum by (le, device) (rate(perigee_flow_latency_seconds_bucket[1m])))",
            "max(perigee:nic:rate)",
            "up == 0",
        ];
        for expr in sound {
            assert_eq!(findings(expr), Vec::<String>::new(), "{expr}");
        }
    }

    #[test]
    fn names_labels_and_rules_that_do_not_exist_are_found() {
        assert!(findings("rate(perigee_nic_recieve_bytes_total[1m])")[0].contains("recieve"));
        assert!(findings("sum by (nic) (perigee_nic_up)")[0].contains("label nic"));
        assert!(findings("perigee_nic_up{colour=\"red\"}")[0].contains("label colour"));
        assert!(findings("perigee:other:rate")[0].contains("no rule records"));
        assert!(
            findings("perigee_flow_latency_seconds")[0].contains("perigee_flow_latency_seconds")
        );
        assert!(findings("vector(1)")[0].contains("no metric"));
    }
}
