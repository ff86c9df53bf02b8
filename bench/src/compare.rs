//! `perigee bench compare A B`: two reports, row by row.
//! Invariant: a ratio whose two spreads overlap is never called a difference.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;

use perigee_flags::{Flag, Program, Settings, ValueKind};
use serde::Serialize;

use crate::error::BenchError;
use crate::limits::{REPORT_BYTES_MAX, SPREAD_PARTS_MIN};
use crate::report::{FORMAT, Format, RateUnit, Report, Row};
use crate::run::{Run, Tool};
use crate::sample::Spread;

mod csv;
mod text;

const FLAGS: &[Flag] =
    &[Flag::new("format", ValueKind::Text, "text", "text for people, json or csv for programs")
        .one_of(Format::WORDS)];

pub(crate) const TOOL: Tool = Tool {
    name: "compare",
    program: Program {
        name: "perigee bench compare",
        version: env!("CARGO_PKG_VERSION"),
        summary: "two reports of one tool, row by row",
        variable_prefix: "PERIGEE_BENCH_COMPARE_",
        words: &["BEFORE.json", "AFTER.json"],
        tables: &[("Output", FLAGS)],
    },
    examples: &[
        "perigee bench nic --format json > before.json",
        "perigee bench nic --format json > after.json",
        "perigee bench compare before.json after.json",
    ],
    run,
};

fn run(run: Run<'_>) -> Result<(), BenchError> {
    let printed = result(&run.settings)?;
    for warning in &printed.warnings {
        eprintln!("warning: {warning}");
    }
    run.print(&printed.text)
}

/// What goes to standard output, and what to standard error beside it.
#[derive(Debug)]
struct Printed {
    text: String,
    warnings: Vec<String>,
}

fn result(settings: &Settings) -> Result<Printed, BenchError> {
    let [one, other] = settings.words() else {
        unreachable!("the program's table asks for two words")
    };
    let comparison = Comparison::of(&read(one)?, &read(other)?, [one, other])?;
    Ok(match Format::of_word(settings.text("format")) {
        Format::Text => Printed { text: text::text(&comparison), warnings: Vec::new() },
        Format::Json => comparison.printed(comparison.json()),
        Format::Csv => comparison.printed(csv::csv(&comparison)),
    })
}

fn refuse(file: &str, detail: impl Into<String>) -> BenchError {
    BenchError::Report { file: file.to_owned(), detail: detail.into() }
}

fn read(file: &str) -> Result<Report, BenchError> {
    let mut text = String::new();
    let opened = File::open(file).map_err(|error| refuse(file, error.to_string()))?;
    opened
        .take(REPORT_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| refuse(file, error.to_string()))?;
    let advice = "make it with perigee bench nic --format json";
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| refuse(file, format!("Not JSON ({error}); {advice}")))?;
    match value.get("format").and_then(serde_json::Value::as_str) {
        Some(FORMAT) => {}
        Some(other) => {
            let detail = format!("Written in format {other}, {FORMAT} is read; {advice}");
            return Err(refuse(file, detail));
        }
        None => {
            return Err(refuse(file, format!("Not a report of a bench tool; {advice}")));
        }
    }
    serde_json::from_value(value)
        .map_err(|error| refuse(file, format!("A damaged report ({error}); {advice}")))
}

/// One row of both reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Pair {
    operation: String,
    nic: String,
    bytes: u64,
    depth: u64,
    threads: u64,
    unit: RateUnit,
    before: Spread,
    after: Spread,
    /// Median after, divided by median before; none if that was 0.
    ratio: Option<f64>,
    /// The same of the 99th percentiles, where both have one.
    p99_ratio: Option<f64>,
    /// Some part of one run was as fast as some part of the other, or it cannot be decided.
    overlap: bool,
    /// Both runs have enough parts to tell.
    has_spread: bool,
}

/// Two reports side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Comparison {
    tool: String,
    files: [String; 2],
    rows: Vec<Pair>,
    /// Rows that only one of them has.
    unmatched: usize,
    warnings: Vec<String>,
}

impl Comparison {
    fn of(before: &Report, after: &Report, files: [&str; 2]) -> Result<Self, BenchError> {
        if before.tool != after.tool {
            return Err(refuse(
                files[1],
                format!(
                    "Of `bench {}`, but {} is of `bench {}`; compare reports of one tool",
                    after.tool, files[0], before.tool
                ),
            ));
        }
        let rows: Vec<Pair> = before.rows.iter().filter_map(|row| pair(row, after)).collect();
        if rows.is_empty() {
            return Err(refuse(
                files[1],
                format!(
                    "No row has the operation, size, depth and threads of one in {}; run both with \
                     the same settings",
                    files[0]
                ),
            ));
        }
        Ok(Self {
            tool: before.tool.clone(),
            files: files.map(str::to_owned),
            unmatched: before.rows.len() + after.rows.len() - 2 * rows.len(),
            rows,
            warnings: warnings(before, after, files),
        })
    }

    /// For programs: people see the warnings all the same.
    fn printed(&self, text: String) -> Printed {
        let warnings = self.warnings.clone();
        Printed { text, warnings }
    }

    fn json(&self) -> String {
        let value = serde_json::to_value(self)
            .expect("a comparison holds only text, numbers and lists, which all are JSON");
        format!("{value:#}\n")
    }
}

fn is_same_cell(one: &Row, other: &Row) -> bool {
    one.operation == other.operation
        && one.nic == other.nic
        && (one.bytes, one.depth, one.threads) == (other.bytes, other.depth, other.threads)
        && one.rate.unit == other.rate.unit
}

fn pair(row: &Row, after: &Report) -> Option<Pair> {
    let other = after.rows.iter().find(|other| is_same_cell(row, other))?;
    let spread = |row: &Row| match row.rate.samples[..] {
        [] => Spread::of(&[row.rate.average]),
        _ => Spread::of(&row.rate.samples),
    };
    let (one, two) = (spread(row), spread(other));
    let parts = row.rate.samples.len().min(other.rate.samples.len());
    let has_spread = parts >= SPREAD_PARTS_MIN;
    let p99 = |row: &Row| row.latency.as_ref().map(|latency| latency.p99_ns as f64);
    Some(Pair {
        operation: row.operation.clone(),
        nic: row.nic.clone(),
        bytes: row.bytes,
        depth: row.depth,
        threads: row.threads,
        unit: row.rate.unit,
        before: one,
        after: two,
        ratio: (one.median > 0.0).then(|| two.median / one.median),
        p99_ratio: p99(row).zip(p99(other)).map(|(one, two)| two / one.max(1.0)),
        overlap: !has_spread || (one.low <= two.high && two.low <= one.high),
        has_spread,
    })
}

fn warnings(before: &Report, after: &Report, files: [&str; 2]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (report, file) in [before, after].into_iter().zip(files) {
        if !report.complete {
            let why = report.error.as_deref().unwrap_or("it does not say why");
            warnings.push(format!("{file}: the run ended early ({why})"));
        }
        if report.rows.iter().any(|row| row.corrupt > 0) {
            warnings.push(format!("{file}: wrong bytes; its figures are worthless"));
        }
    }
    if before.loopback != after.loopback {
        let word = |report: &Report| {
            if report.loopback { "loopback" } else { "two machines" }
        };
        warnings.push(format!(
            "Not of one kind: {} is of {}, {} of {}; the ratios say nothing about a change",
            files[0],
            word(before),
            files[1],
            word(after)
        ));
    }
    let differences = before.machine.differences(&after.machine);
    if !differences.is_empty() {
        warnings
            .push("Not of one machine in one state; the ratios are of all that differs".to_owned());
    }
    for (name, one, two) in differences {
        warnings.push(format!("{name} differs: {one} / {two}"));
    }
    let names: BTreeSet<&String> = before.settings.keys().chain(after.settings.keys()).collect();
    for name in names {
        let [one, two] = [before, after].map(|report| report.settings.get(name));
        if one != two {
            let [one, two] = [one, two].map(|value| value.map_or("-", String::as_str));
            // A variable of the environment is not a flag.
            let sign = if name.starts_with("PERIGEE_") { "" } else { "--" };
            warnings.push(format!("{sign}{name} differs: {one} / {two}"));
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
