//! What a bench tool found: figures, rows, and the machine they come from.
//! Invariant: text, JSON and CSV are made from this one value; JSON reads back to an equal one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::drive::Measured;
use crate::error::BenchError;
use crate::facts::Machine;
use crate::latency::Latency;
use crate::limits::BUSY_LOAD_SHARE;

mod csv;
mod quantity;
mod text;

pub use quantity::{BandwidthUnit, bytes_text};

/// Name and version of the JSON form; `bench/schema/report.json` describes it.
pub const FORMAT: &str = "perigee-bench-1";

/// How to print a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people, at 80 columns.
    Text,
    /// One JSON document with sorted keys.
    Json,
    /// One line per row.
    Csv,
}

impl Format {
    /// Words of the flag.
    pub const WORDS: &'static [&'static str] = &["text", "json", "csv"];

    /// Of one of the words.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        match word {
            "json" => Self::Json,
            "csv" => Self::Csv,
            _ => Self::Text,
        }
    }
}

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// `nic`, `store`, `master` or `trace`.
    pub tool: String,
    /// False if the run ended before all rows were taken.
    pub complete: bool,
    /// Why it ended early.
    pub error: Option<String>,
    /// Both ends ran on this machine.
    pub loopback: bool,
    /// When the run began, in seconds since 1970.
    pub started_unix_s: u64,
    /// The settings of the run, as they would be written.
    pub settings: BTreeMap<String, String>,
    /// Where it ran.
    pub machine: Machine,
    /// What to look at first.
    pub figures: Vec<Figure>,
    /// What was measured.
    pub rows: Vec<Row>,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
    /// How it was measured.
    pub notes: Vec<String>,
}

/// One number to look at first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit: `bytes_per_second`, `keys_per_second`, `nanoseconds`, `share` or `count`.
    pub unit: FigureUnit,
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureUnit {
    /// Bytes per second.
    BytesPerSecond,
    /// Keys per second.
    KeysPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// A part of 1.
    Share,
    /// A number of things.
    Count,
}

/// What the rate of a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateUnit {
    /// Bytes per second.
    BytesPerSecond,
    /// Keys per second.
    KeysPerSecond,
}

/// A rate in its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// What is counted.
    pub unit: RateUnit,
    /// Of the fastest part of the time.
    pub peak: f64,
    /// Of the whole time.
    pub average: f64,
    /// Of equal parts of the time, in order; empty where only the whole is known.
    pub samples: Vec<f64>,
}

/// Name of the row that sums up all network cards or routes.
pub const TOTAL: &str = "total";

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// `write`, `read`, `mixed`, `put`, `get`, `exist` and so on.
    pub operation: String,
    /// A network card or route, or [`TOTAL`].
    pub nic: String,
    /// Bytes per operation; 0 where keys are counted.
    pub bytes: u64,
    /// Operations in flight per thread, or keys per call.
    pub depth: u64,
    /// Threads of the load.
    pub threads: u64,
    /// Operations that were counted; of a network card, its bytes by those of an operation.
    pub iterations: u64,
    /// The time they took.
    pub seconds: f64,
    /// Operations per second.
    pub operations_per_second: f64,
    /// Bytes or keys per second.
    pub rate: Rate,
    /// Their latencies, where they were timed one by one.
    pub latency: Option<Latency>,
    /// Operations that brought a wrong byte.
    pub corrupt: u64,
}

/// What a row is about.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    /// See [`Row::operation`].
    pub operation: &'a str,
    /// See [`Row::bytes`].
    pub bytes: u64,
    /// See [`Row::depth`].
    pub depth: u64,
    /// See [`Row::threads`].
    pub threads: u64,
    /// What its rate counts.
    pub unit: RateUnit,
}

impl Row {
    /// The row of a whole load.
    #[must_use]
    pub fn total(cell: &Cell<'_>, measured: &Measured) -> Self {
        let average = measured.units as f64 / measured.seconds;
        let peak = measured.samples.iter().copied().fold(average, f64::max);
        Self {
            operation: cell.operation.to_owned(),
            nic: TOTAL.to_owned(),
            bytes: cell.bytes,
            depth: cell.depth,
            threads: cell.threads,
            iterations: measured.operations,
            seconds: measured.seconds,
            operations_per_second: measured.operations as f64 / measured.seconds,
            rate: Rate {
                unit: cell.unit,
                peak,
                average,
                samples: measured.samples.clone(),
            },
            latency: measured.latency.summary(),
            corrupt: measured.corrupt,
        }
    }
}

impl Report {
    /// An empty report of a run that begins now.
    #[must_use]
    pub fn begin(tool: &str, machine: Machine, settings: BTreeMap<String, String>) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            format: FORMAT.to_owned(),
            tool: tool.to_owned(),
            complete: false,
            error: None,
            loopback: false,
            started_unix_s: now.map_or(0, |since| since.as_secs()),
            settings,
            machine,
            figures: Vec::new(),
            rows: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Notes how the run ended, and what makes its figures doubtful.
    pub fn end(&mut self, outcome: &Result<(), BenchError>) {
        self.complete = outcome.is_ok();
        self.error = outcome.as_ref().err().map(ToString::to_string);
        let cpus = self.machine.cpus as f64;
        if self.machine.load_1m > cpus * BUSY_LOAD_SHARE {
            self.warnings.push(format!(
                "load {:.2} on {cpus} CPUs when the run began: figures of a busy machine move",
                self.machine.load_1m
            ));
        }
    }

    /// In a format; bandwidths of the text form in `unit`. A run that failed before its first row has no text: the
    /// error says it all.
    #[must_use]
    pub fn print(&self, format: Format, unit: BandwidthUnit) -> String {
        match format {
            Format::Text if self.rows.is_empty() => String::new(),
            Format::Text => text::text(self, unit),
            Format::Json => self.json(),
            Format::Csv => csv::csv(self),
        }
    }

    /// As JSON with sorted keys.
    #[must_use]
    pub fn json(&self) -> String {
        let value = serde_json::to_value(self)
            .expect("a report holds only text, numbers and lists, which all are JSON");
        format!("{value:#}\n")
    }
}

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
