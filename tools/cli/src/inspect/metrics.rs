//! All metrics of all programs, as the catalogue has them.

use crate::columns::aligned;
use perigee_metrics::{Family, MetricSource, catalogue};
use serde_json::{Value, json};

/// One table per program.
pub(super) fn plain_text() -> String {
    let mut text = String::new();
    for source in MetricSource::ALL {
        let families = catalogue::families().filter(|family| family.source == source);
        let rows: Vec<_> = families.map(row).collect();
        text.push_str(&format!("{}\n{}\n", source.title(), aligned(2, &rows)));
    }
    text
}

fn row(family: &Family) -> [String; 5] {
    [
        family.name.to_owned(),
        family.kind.word().to_owned(),
        family.unit.to_owned(),
        family.labels.join(","),
        family.help.to_owned(),
    ]
}

/// The same for programs.
pub(super) fn json_text() -> String {
    let entry = |family: &'static Family| {
        json!({
            "name": family.name,
            "kind": family.kind.word(),
            "unit": family.unit,
            "labels": family.labels,
            "stability": family.stability.words(),
            "program": family.source.title(),
            "help": family.help,
        })
    };
    let all: Vec<Value> = catalogue::families().map(entry).collect();
    format!("{:#}\n", Value::Array(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_in_both_forms_once() {
        let document: Value = json_text().parse().unwrap();
        let count = catalogue::families().count();
        assert_eq!(document.as_array().unwrap().len(), count);
        let text = plain_text();
        for family in catalogue::families() {
            let begin = format!("  {} ", family.name);
            let lines = text.lines().filter(|line| line.starts_with(&begin));
            assert_eq!(lines.count(), 1, "{}", family.name);
        }
        assert!(text.starts_with("Master\n"));
    }
}
