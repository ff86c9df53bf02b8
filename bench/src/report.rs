//! What a bench tool found: figures, rows, and the machine they come from.
//! Invariant: text, JSON and CSV are made from this one value; JSON reads back to an equal one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::baseline::rounds::{Beside, Taken};
use crate::error::BenchError;
use crate::facts::Machine;
use crate::limits::BUSY_LOAD_SHARE;
use crate::load::drive::Measured;
use crate::load::latency::Latency;
use crate::sample::Spread;

mod csv;
mod quantity;
mod text;

pub(crate) use quantity::{BandwidthUnit, bytes_text};

/// Name and version of the JSON form; `bench/schema/report.json` describes it.
pub(crate) const FORMAT: &str = "perigee-bench-2";

/// How to print a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people, at 80 columns.
    Text,
    /// One JSON document with sorted keys.
    Json,
    /// One line per row.
    Csv,
}

impl Format {
    /// Words of the flag.
    pub(crate) const WORDS: &'static [&'static str] = &["text", "json", "csv"];

    /// Of one of the words.
    #[must_use]
    pub(crate) fn of_word(word: &str) -> Self {
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
pub(crate) struct Report {
    pub(crate) format: String,
    /// `nic`, `store`, `disk`, `engine`, `master`, `trace`, `policy` or `machine`.
    pub(crate) tool: String,
    /// False if the run ended before all rows were taken.
    pub(crate) complete: bool,
    /// Why it ended early.
    pub(crate) error: Option<String>,
    /// Both ends ran on this machine.
    pub(crate) loopback: bool,
    /// When the run began, in seconds since 1970.
    pub(crate) started_unix_s: u64,
    /// The settings of the run, as they would be written.
    pub(crate) settings: BTreeMap<String, String>,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// What to look at first.
    pub(crate) figures: Vec<Figure>,
    /// What was measured.
    pub(crate) rows: Vec<Row>,
    /// What makes the figures doubtful.
    pub(crate) warnings: Vec<String>,
    /// How it was measured.
    pub(crate) notes: Vec<String>,
}

/// One number to look at first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// What it is.
    pub(crate) name: String,
    pub(crate) value: f64,
    /// What it counts.
    pub(crate) unit: FigureUnit,
    /// The bound it is held against.
    pub(crate) goal: Option<Goal>,
}

/// A bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

impl Figure {
    /// The rate of a row.
    pub(crate) fn rate(row: &Row) -> Self {
        let (what, unit) = match row.rate.unit {
            RateUnit::Bytes => (bytes_text(row.bytes), FigureUnit::BytesPerSecond),
            RateUnit::Keys => (format!("{} keys", row.depth), FigureUnit::KeysPerSecond),
            RateUnit::Operations => (String::new(), FigureUnit::OperationsPerSecond),
        };
        Self {
            name: format!("{} {what}", row.operation).trim_end().to_owned(),
            value: row.rate.average,
            unit,
            goal: None,
        }
    }

    pub(crate) fn ratio(name: &str, value: f64) -> Self {
        Self { name: name.to_owned(), value, unit: FigureUnit::Ratio, goal: None }
    }

    /// The least ratio of rows to a baseline; `None` if no row has it.
    pub(crate) fn worst<'r>(
        rows: impl Iterator<Item = &'r Row>,
        what: &str,
        baseline: &str,
    ) -> Option<Self> {
        let ratios = rows.filter_map(|row| Some(row.beside(baseline)?.ratio.median));
        let name = format!("{what}, worst row, of a {baseline}");
        Some(Self::ratio(&name, ratios.reduce(f64::min)?))
    }

    /// The same with a bound.
    #[must_use]
    pub(crate) fn with_goal(self, goal: Goal) -> Self {
        Self { goal: Some(goal), ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FigureUnit {
    /// Bytes per second.
    BytesPerSecond,
    /// Keys per second.
    KeysPerSecond,
    /// Operations per second.
    OperationsPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// A part of 1.
    Share,
    /// Of something else.
    Ratio,
    /// A number of things.
    Count,
}

/// What the rate of a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RateUnit {
    /// Bytes per second.
    #[serde(rename = "bytes_per_second")]
    Bytes,
    /// Keys per second.
    #[serde(rename = "keys_per_second")]
    Keys,
    /// Operations per second.
    #[serde(rename = "operations_per_second")]
    Operations,
}

/// A rate in its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rate {
    /// What is counted.
    pub(crate) unit: RateUnit,
    /// Of the fastest part of the time.
    pub(crate) peak: f64,
    /// Of the whole time.
    pub(crate) average: f64,
    /// Of equal parts of the time, in order; empty where only the whole is known.
    pub(crate) samples: Vec<f64>,
}

impl Rate {
    fn of(unit: RateUnit, measured: &Measured) -> Self {
        let average = measured.rate();
        Self {
            unit,
            peak: measured.samples.iter().copied().fold(average, f64::max),
            average,
            samples: measured.samples.clone(),
        }
    }
}

/// The same work done without our program, in turn with a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    /// `cold memcpy`, `streaming copy`, `bare pump`, `polling ping-pong`, `memcached multi-get` and
    /// so on.
    pub(crate) name: String,
    /// Its rate, in the unit of the row.
    pub(crate) rate: Rate,
    /// Its latencies, where they were timed.
    pub(crate) latency: Option<Latency>,
    /// Rate of the row by this one: median and range of the rounds.
    pub(crate) ratio: Spread,
}

impl Baseline {
    fn of(unit: RateUnit, beside: &Beside) -> Self {
        Self {
            name: beside.name.to_owned(),
            rate: Rate::of(unit, &beside.measured),
            latency: beside.measured.latency.summary(),
            ratio: beside.ratio(),
        }
    }
}

/// Name of the row that sums up all network cards or routes.
pub(crate) const TOTAL: &str = "total";

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// `write`, `read`, `mixed`, `put`, `get`, `exist` and so on.
    pub(crate) operation: String,
    /// A network card or route, or [`TOTAL`].
    pub(crate) nic: String,
    /// Bytes per operation; 0 where keys are counted.
    pub(crate) bytes: u64,
    /// Operations in flight per thread, or keys per call.
    pub(crate) depth: u64,
    /// Threads of the load.
    pub(crate) threads: u64,
    /// Operations that were counted; of a network card, its bytes by those of an operation.
    pub(crate) iterations: u64,
    /// The time they took.
    pub(crate) seconds: f64,
    pub(crate) operations_per_second: f64,
    /// Bytes or keys per second.
    pub(crate) rate: Rate,
    /// Their latencies, where they were timed one by one.
    pub(crate) latency: Option<Latency>,
    /// Operations that brought a wrong byte.
    pub(crate) corrupt: u64,
    /// What it is held against.
    pub(crate) baselines: Vec<Baseline>,
}

/// What a row is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell<'a> {
    /// See [`Row::operation`].
    pub(crate) operation: &'a str,
    /// See [`Row::bytes`].
    pub(crate) bytes: u64,
    /// See [`Row::depth`].
    pub(crate) depth: u64,
    /// See [`Row::threads`].
    pub(crate) threads: u64,
    /// What its rate counts.
    pub(crate) unit: RateUnit,
}

impl Row {
    /// The row of a load that is held against nothing.
    pub(crate) fn total(cell: &Cell<'_>, measured: &Measured) -> Self {
        Self {
            operation: cell.operation.to_owned(),
            nic: TOTAL.to_owned(),
            bytes: cell.bytes,
            depth: cell.depth,
            threads: cell.threads,
            iterations: measured.operations,
            seconds: measured.seconds,
            operations_per_second: measured.operations as f64 / measured.seconds,
            rate: Rate::of(cell.unit, measured),
            latency: measured.latency.summary(),
            corrupt: measured.corrupt,
            baselines: Vec::new(),
        }
    }

    /// The row of a load and its baselines.
    pub(crate) fn of(cell: &Cell<'_>, taken: &Taken) -> Self {
        let beside = taken.beside.iter();
        Self {
            baselines: beside.map(|one| Baseline::of(cell.unit, one)).collect(),
            ..Self::total(cell, &taken.load)
        }
    }

    /// The baseline of this name.
    fn beside(&self, name: &str) -> Option<&Baseline> {
        self.baselines.iter().find(|baseline| baseline.name == name)
    }

    /// Median latency by that of a baseline.
    pub(crate) fn slower_than(&self, baseline: &str) -> Option<f64> {
        let theirs = self.beside(baseline)?.latency.as_ref()?.p50_ns;
        Some(self.latency.as_ref()?.p50_ns as f64 / theirs.max(1) as f64)
    }
}

impl Report {
    /// An empty report of a run that begins now.
    #[must_use]
    pub(crate) fn begin(tool: &str, machine: Machine, settings: BTreeMap<String, String>) -> Self {
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

    /// Says how many rounds of a row did not count.
    pub(crate) fn warn_of_dropped(&mut self, row: &Row, dropped: u32) {
        if dropped > 0 {
            let (operation, bytes) = (&row.operation, row.bytes);
            let text = format!(
                "{dropped} rounds of {operation}, {bytes} bytes, were not quiet and do not count"
            );
            self.warnings.push(text);
        }
    }

    /// Says how many operations of an open loop the end of a row left out.
    pub(crate) fn warn_of_overdue(&mut self, row: &Row, overdue: u64) {
        if overdue > 0 {
            let (operation, bytes) = (&row.operation, row.bytes);
            let text = format!(
                "{overdue} operations of {operation}, {bytes} bytes, were due and had not begun when the time was \
                 over: the rate is more than was done, and latencies grow with the time of the row"
            );
            self.warnings.push(text);
        }
    }

    /// Notes how the run ended, and what makes its figures doubtful.
    pub(crate) fn end(&mut self, outcome: &Result<(), BenchError>) {
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

    /// In a format; bandwidths of the text form in `unit`. A run that failed before its first row
    /// has no text: the error says it all.
    #[must_use]
    pub(crate) fn print(&self, format: Format, unit: BandwidthUnit) -> String {
        match format {
            Format::Text if self.rows.is_empty() && self.figures.is_empty() => String::new(),
            Format::Text => text::text(self, unit),
            Format::Json => self.json(),
            Format::Csv => csv::csv(self),
        }
    }

    /// As JSON with sorted keys.
    #[must_use]
    pub(crate) fn json(&self) -> String {
        let value = serde_json::to_value(self)
            .expect("a report holds only text, numbers and lists, which all are JSON");
        format!("{value:#}\n")
    }
}

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
