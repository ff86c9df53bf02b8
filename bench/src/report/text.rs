//! The report for people. Invariant: first what spoils the figures, then the figures, then tables
//! in the order of perftest's columns; no line of the tables passes 80 columns while names are
//! short.

use std::fmt::Write as _;

use super::quantity::{micros, short, time_text};
use super::{BandwidthUnit, Baseline, Figure, FigureUnit, Goal, RateUnit, Report, Row};
use crate::load::latency::Latency;

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
        let (shown, goal) = (figure_text(figure.unit, figure.value, unit), verdict(figure, unit));
        let _ = writeln!(text, "{}: {shown}{goal}", figure.name);
    }
    for group in groups(&report.rows) {
        rates_into(&mut text, &report.tool, group, unit);
        latencies_into(&mut text, group);
        baselines_into(&mut text, group, unit);
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

fn figure_text(kind: FigureUnit, value: f64, unit: BandwidthUnit) -> String {
    match kind {
        FigureUnit::BytesPerSecond => format!("{} {}/s", short(unit.of(value)), unit.word()),
        FigureUnit::KeysPerSecond => format!("{} M keys/s", short(value / 1e6)),
        FigureUnit::OperationsPerSecond => format!("{} M/s", short(value / 1e6)),
        FigureUnit::Nanoseconds => time_text(value),
        FigureUnit::Bytes => format!("{} bytes", short(value)),
        FigureUnit::Share => format!("{:.2} %", value * 100.0),
        FigureUnit::Ratio => format!("{value:.3}"),
        FigureUnit::Count => format!("{value:.0}"),
    }
}

/// Whether a figure meets its goal; empty if it has none.
fn verdict(figure: &Figure, unit: BandwidthUnit) -> String {
    let Some(goal) = figure.goal else {
        return String::new();
    };
    let (sign, bound) = match goal {
        Goal::AtLeast(bound) => (">=", bound),
        Goal::AtMost(bound) => ("<=", bound),
    };
    let outcome = if goal.is_met(figure.value) { "met" } else { "missed" };
    format!(" (goal {sign} {}: {outcome})", figure_text(figure.unit, bound, unit))
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
        "nic" | "engine" | "disk" => format!(", {} in flight each", first.depth),
        "trace" | "machine" => String::new(),
        _ => format!(", {} keys per call", first.depth),
    };
    let _ = writeln!(text, "\n{operation}: {count} thread{threads}{depth}");
    let kind = match first.rate.unit {
        RateUnit::Bytes => "BW ",
        RateUnit::Keys | RateUnit::Operations => "",
    };
    let word = rate_word(first.rate.unit, unit);
    let peak = format!("{kind}peak[{word}/sec]");
    let average = format!("{kind}average[{word}/sec]");
    let _ = writeln!(
        text,
        "{:<8} {:<11} {peak} {average} MsgRate[Mpps] NIC",
        size_name(first),
        "#iterations"
    );
    for row in rows {
        let shown = |rate: f64| in_unit(row.rate.unit, unit, rate);
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
        RateUnit::Bytes => "#bytes",
        RateUnit::Keys => "#keys",
        RateUnit::Operations => "#calls",
    }
}

/// Bytes per operation, or keys per call.
fn size(row: &Row) -> u64 {
    match row.rate.unit {
        RateUnit::Bytes => row.bytes,
        RateUnit::Keys => row.depth,
        RateUnit::Operations => 1,
    }
}

/// What a rate counts, in short.
fn rate_word(kind: RateUnit, unit: BandwidthUnit) -> &'static str {
    match kind {
        RateUnit::Bytes => unit.word(),
        RateUnit::Keys => "Mkeys",
        RateUnit::Operations => "M",
    }
}

fn in_unit(kind: RateUnit, unit: BandwidthUnit, rate: f64) -> f64 {
    match kind {
        RateUnit::Bytes => unit.of(rate),
        RateUnit::Keys | RateUnit::Operations => rate / 1e6,
    }
}

fn baselines_into(text: &mut String, rows: &[Row], unit: BandwidthUnit) {
    let Some(first) = rows.iter().find(|row| !row.baselines.is_empty()) else {
        return;
    };
    let kind = first.rate.unit;
    let average = format!("average[{}/sec]", rate_word(kind, unit));
    let _ = writeln!(
        text,
        "\nbeside it, in turn:\n{:<8} {average} ratio   lowest  highest against",
        size_name(first)
    );
    for row in rows {
        for Baseline { name, rate, ratio, .. } in &row.baselines {
            let _ = writeln!(
                text,
                "{:<8} {:<width$} {:<7.3} {:<7.3} {:<7.3} {name}",
                size(row),
                short(in_unit(kind, unit, rate.average)),
                ratio.median,
                ratio.low,
                ratio.high,
                width = average.len(),
            );
        }
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
