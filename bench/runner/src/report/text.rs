//! The report for people. Invariant: first what spoils the figures, then the figures, then tables in the
//! order of perftest's columns; no line of the tables passes 80 columns while names are short.

use std::fmt::Write as _;

use super::quantity::{micros, short, time_text};
use super::{BandwidthUnit, Figure, FigureUnit, RateUnit, Report, Row};
use crate::latency::Latency;

const LOOPBACK: &str = "\
LOOPBACK: both ends run on this machine. These figures say what its CPUs and
memory can do, and nothing about a network card.
";

/// Everything.
pub(super) fn text(report: &Report, unit: BandwidthUnit) -> String {
    let mut text = String::new();
    if report.loopback {
        text.push_str(LOOPBACK);
    }
    if !report.complete {
        let why = report.error.as_deref().unwrap_or("the run ended early");
        let _ = writeln!(text, "INCOMPLETE: {why}\nRows so far:");
    }
    for figure in &report.figures {
        let _ = writeln!(text, "{}: {}", figure.name, figure_text(figure, unit));
    }
    for group in groups(&report.rows) {
        rates_into(&mut text, &report.tool, group, unit);
        latencies_into(&mut text, group);
    }
    text.push('\n');
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text.push_str(&report.machine.text());
    text
}

fn figure_text(figure: &Figure, unit: BandwidthUnit) -> String {
    let value = figure.value;
    match figure.unit {
        FigureUnit::BytesPerSecond => format!("{} {}/s", short(unit.of(value)), unit.word()),
        FigureUnit::KeysPerSecond => format!("{} M keys/s", short(value / 1e6)),
        FigureUnit::Nanoseconds => time_text(value),
        FigureUnit::Share => format!("{:.2} %", value * 100.0),
        FigureUnit::Count => format!("{value:.0}"),
    }
}

/// Consecutive rows of one operation.
fn groups(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|one, next| {
        one.operation == next.operation
            && one.rate.unit == next.rate.unit
            && one.depth == next.depth
            && one.threads == next.threads
    })
}

fn rates_into(text: &mut String, tool: &str, rows: &[Row], unit: BandwidthUnit) {
    let Some(first) = rows.first() else { return };
    let threads = if first.threads == 1 { "" } else { "s" };
    let (operation, count) = (&first.operation, first.threads);
    let depth = match tool {
        "nic" => format!(", {} in flight each", first.depth),
        "trace" => String::new(),
        _ => format!(", {} keys per call", first.depth),
    };
    let _ = writeln!(text, "\n{operation}: {count} thread{threads}{depth}");
    let keys = first.rate.unit == RateUnit::KeysPerSecond;
    let (kind, word) = if keys {
        ("", "Mkeys")
    } else {
        ("BW ", unit.word())
    };
    let peak = format!("{kind}peak[{word}/sec]");
    let average = format!("{kind}average[{word}/sec]");
    let _ = writeln!(
        text,
        "{:<8} {:<11} {peak} {average} MsgRate[Mpps] NIC",
        size_name(first),
        "#iterations"
    );
    for row in rows {
        let shown = |rate: f64| if keys { rate / 1e6 } else { unit.of(rate) };
        let _ = writeln!(
            text,
            "{:<8} {:<11} {:<peak_width$} {:<average_width$} {:<13.6} {}",
            size(row),
            row.iterations,
            short(shown(row.rate.peak)),
            short(shown(row.rate.average)),
            row.operations_per_second / 1e6,
            row.nic,
            peak_width = peak.len(),
            average_width = average.len(),
        );
    }
}

/// Name of the first column.
fn size_name(row: &Row) -> &'static str {
    match row.rate.unit {
        RateUnit::BytesPerSecond => "#bytes",
        RateUnit::KeysPerSecond => "#keys",
    }
}

/// Bytes per operation, or keys per call.
fn size(row: &Row) -> u64 {
    match row.rate.unit {
        RateUnit::BytesPerSecond => row.bytes,
        RateUnit::KeysPerSecond => row.depth,
    }
}

fn latencies_into(text: &mut String, rows: &[Row]) {
    let timed = |row: &Row| Some((size(row), row.latency.clone()?));
    let timed: Vec<(u64, Latency)> = rows.iter().filter_map(timed).collect();
    let Some(first) = rows.first().filter(|_| !timed.is_empty()) else {
        return;
    };
    let name = size_name(first);
    let _ = writeln!(
        text,
        "\nlatency in usec:\n{name:<8} #iterations t_min   t_max   t_typical t_avg   t_stdev 99%     99.9%"
    );
    for (size, latency) in &timed {
        let _ = writeln!(
            text,
            "{size:<8} {:<11} {:<7} {:<7} {:<9} {:<7} {:<7} {:<7} {}",
            latency.count,
            micros(latency.min_ns),
            micros(latency.max_ns),
            micros(latency.p50_ns),
            short(latency.mean_ns / 1e3),
            short(latency.stdev_ns / 1e3),
            micros(latency.p99_ns),
            micros(latency.p99_9_ns),
        );
    }
    let _ = writeln!(
        text,
        "\npercentiles in usec:\n{name:<8} p50     p75     p90     p95     p99     p99.9   p99.99  max"
    );
    for (size, latency) in &timed {
        let _ = write!(text, "{size:<8}");
        for nanos in percentiles(latency) {
            let _ = write!(text, " {:<7}", micros(nanos));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
}

fn percentiles(latency: &Latency) -> [u64; 8] {
    [
        latency.p50_ns,
        latency.p75_ns,
        latency.p90_ns,
        latency.p95_ns,
        latency.p99_ns,
        latency.p99_9_ns,
        latency.p99_99_ns,
        latency.max_ns,
    ]
}
