//! The report as lines for spreadsheets. Invariant: every line has as many fields as the first.

use super::{Baseline, RateUnit, Report, Row};
use crate::load::latency::Latency;

const COLUMNS: &str = "tool,loopback,operation,nic,bytes,depth,threads,iterations,seconds,\
rate_unit,rate_peak,rate_average,operations_per_second,corrupt,\
min_ns,max_ns,mean_ns,stdev_ns,p50_ns,p75_ns,p90_ns,p95_ns,p99_ns,p99_9_ns,p99_99_ns,ratios";

const LATENCY_COLUMNS: usize = 11;

/// All rows, after a line with the names of the columns.
pub(super) fn csv(report: &Report) -> String {
    let mut text = format!("{COLUMNS}\n");
    for row in &report.rows {
        text.push_str(&line(report, row));
        text.push('\n');
    }
    text
}

fn line(report: &Report, row: &Row) -> String {
    let unit = match row.rate.unit {
        RateUnit::Bytes => "bytes_per_second",
        RateUnit::Keys => "keys_per_second",
        RateUnit::Operations => "operations_per_second",
    };
    let mut fields = vec![
        quoted(&report.tool),
        report.loopback.to_string(),
        quoted(&row.operation),
        quoted(&row.nic),
        row.bytes.to_string(),
        row.depth.to_string(),
        row.threads.to_string(),
        row.iterations.to_string(),
        row.seconds.to_string(),
        unit.to_owned(),
        row.rate.peak.to_string(),
        row.rate.average.to_string(),
        row.operations_per_second.to_string(),
        row.corrupt.to_string(),
    ];
    fields.extend(latency_fields(row.latency.as_ref()));
    fields.push(quoted(&ratios(row)));
    fields.join(",")
}

/// `cold memcpy=0.29;bare pump=0.81`
fn ratios(row: &Row) -> String {
    let one = |beside: &Baseline| format!("{}={}", beside.name, beside.ratio.median);
    let all: Vec<String> = row.baselines.iter().map(one).collect();
    all.join(";")
}

fn latency_fields(latency: Option<&Latency>) -> Vec<String> {
    let Some(latency) = latency else {
        return vec![String::new(); LATENCY_COLUMNS];
    };
    vec![
        latency.min_ns.to_string(),
        latency.max_ns.to_string(),
        latency.mean_ns.to_string(),
        latency.stdev_ns.to_string(),
        latency.p50_ns.to_string(),
        latency.p75_ns.to_string(),
        latency.p90_ns.to_string(),
        latency.p95_ns.to_string(),
        latency.p99_ns.to_string(),
        latency.p99_9_ns.to_string(),
        latency.p99_99_ns.to_string(),
    ]
}

/// A text as one field.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn every_line_has_all_columns() {
        let text = csv(&samples::nic());
        let counts: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert!(counts.len() > 2);
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    }

    #[test]
    fn a_comma_in_a_name_does_not_make_two_fields() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(quoted("mlx5_0"), "mlx5_0");
    }
}
