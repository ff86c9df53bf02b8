//! Flags that mean the same in several tools, and what becomes of their values.
//! Invariant: a flag of this list has one text, one default and one limit, whichever tool has it.

use std::time::Duration;

use perigee_flags::{Flag, Settings, ValueKind};

use crate::baseline::rounds::Quiet;
use crate::error::BenchError;
use crate::limits::{
    BUFFER_BYTES_MAX, DURATION_MS_MAX, ITERATIONS_MAX, RATE_MAX, ROUNDS_MAX, THREADS_MAX,
};
use crate::load::drive::Span;
use crate::report::{BandwidthUnit, Format};
use perigee_schemas::Route;

/// The words of [`ROUTE`].
const AUTO: &str = "auto";
const TCP: &str = "tcp";

pub(crate) const DURATION: Flag =
    Flag::new("duration", ValueKind::DurationMs, "2s", "Time per row").within(1, DURATION_MS_MAX);

pub(crate) const ITERATIONS: Flag = Flag::new(
    "iterations",
    ValueKind::Int64,
    "0",
    "Operations or calls per row instead of a time; 0 is by time",
)
.within(0, ITERATIONS_MAX);

pub(crate) const RATE: Flag = Flag::new(
    "rate",
    ValueKind::Int64,
    "0",
    "Operations or calls per second of all threads, each begun on time; 0 waits for the last",
)
.within(0, RATE_MAX);

pub(crate) const THREADS: Flag =
    Flag::new("threads", ValueKind::Int64, "1", "Threads of the load").within(1, THREADS_MAX);

pub(crate) const ALL: Flag = Flag::new("all", ValueKind::Bool, "false", "All sizes from 4 KiB up");

pub(crate) const CLUSTER: Flag =
    Flag::new("master", ValueKind::Text, "", "HOST:PORT of a running cluster; its own if empty");

pub(crate) const ROUTE: Flag =
    Flag::new("route", ValueKind::Text, AUTO, "auto: shared memory on one host; tcp: TCP only")
        .one_of(&[AUTO, TCP]);

pub(crate) const PIN: Flag =
    Flag::new("pin", ValueKind::Bool, "false", "This process on CPU 0, the other end on CPU 1");

/// How rows that are held against something are taken.
pub(crate) const ROUNDS: Flag = Flag::new(
    "rounds",
    ValueKind::Int64,
    "5",
    "Quiet rounds of a row that is held against something",
)
.within(1, ROUNDS_MAX);

pub(crate) const ANY_NOISE: Flag = Flag::new(
    "any_noise",
    ValueKind::Bool,
    "false",
    "Keep rounds in which the machine was not quiet",
);

const FORMAT: Flag =
    Flag::new("format", ValueKind::Text, "text", "text, json or csv").one_of(Format::WORDS);

const UNIT: Flag = Flag::new(
    "unit",
    ValueKind::Text,
    "GB",
    "Unit of text: GB, GiB, Gb, MB, MiB, Mb, KB, KiB or Kb",
)
.one_of(BandwidthUnit::WORDS);

/// How every tool shows its report.
pub(crate) const OUTPUT: &[Flag] = &[FORMAT, UNIT];

/// Bytes of `what`.
pub(crate) const fn size(default: &'static str, what: &'static str) -> Flag {
    Flag::new("size", ValueKind::SizeBytes, default, what).within(0, BUFFER_BYTES_MAX)
}

/// What a load does, of the flags of a tool's load.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// One row for each of these and each size.
    pub(crate) operations: Vec<&'static str>,
    pub(crate) sizes: Vec<u64>,
    /// Operations in flight per thread, or keys per call.
    pub(crate) depth: u64,
    pub(crate) threads: u64,
    pub(crate) span: Span,
    /// Whether bytes are compared.
    pub(crate) verify: bool,
}

/// What differs between the loads of two tools.
pub(crate) struct LoadWords {
    /// Words of `--operation`.
    pub(crate) operations: &'static [&'static str],
    /// Those of them that any other word stands for.
    pub(crate) usual: usize,
    /// The flag of the depth.
    pub(crate) depth: &'static str,
    /// Sizes of `--all`.
    pub(crate) sizes: Vec<u64>,
    /// The smallest block.
    pub(crate) least_bytes: u64,
}

impl Load {
    /// Of the values of the flags.
    pub(crate) fn of(settings: &Settings, words: LoadWords) -> Result<Self, BenchError> {
        if settings.bool("all") && settings.is_given("size") {
            return Err(BenchError::conflict("Give --all or --size, not both"));
        }
        let size: u64 = settings.integer("size");
        if size < words.least_bytes {
            let least = words.least_bytes;
            let text = format!("--size {size} is too small; pass {least} or more");
            return Err(BenchError::conflict(text));
        }
        let asked = settings.text("operation");
        let one = words.operations.iter().filter(|word| **word == asked);
        let operations: Vec<&'static str> = one.copied().collect();
        Ok(Self {
            operations: if operations.is_empty() {
                words.operations[..words.usual].to_vec()
            } else {
                operations
            },
            sizes: if settings.bool("all") { words.sizes } else { vec![size] },
            depth: settings.integer(words.depth),
            threads: settings.integer("threads"),
            span: span(settings),
            verify: settings.bool("verify"),
        })
    }

    /// The largest size.
    pub(crate) fn largest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }
}

/// How long a row takes, of [`DURATION`].
pub(crate) fn duration(settings: &Settings) -> Span {
    Span::of(Duration::from_millis(settings.integer("duration")), 0)
}

/// How long a row takes, of [`DURATION`], [`ITERATIONS`] and [`RATE`].
pub(crate) fn span(settings: &Settings) -> Span {
    let iterations = settings.integer("iterations");
    let span = Span { iterations, ..duration(settings) };
    span.at_rate(settings.integer("rate"))
}

/// The values of [`ROUNDS`] and [`ANY_NOISE`].
pub(crate) fn quiet(settings: &Settings) -> Quiet {
    Quiet { rounds: settings.integer("rounds"), any_noise: settings.bool("any_noise") }
}

/// The format of the report.
pub(crate) fn format(settings: &Settings) -> Format {
    Format::of_word(settings.text("format"))
}

/// The unit of bandwidths.
pub(crate) fn unit(settings: &Settings) -> BandwidthUnit {
    settings.text("unit").parse().unwrap_or_default()
}

/// The value of [`ROUTE`].
pub(crate) fn route(settings: &Settings) -> Route {
    match settings.text("route") {
        TCP => Route::Tcp,
        _ => Route::SharedMemory,
    }
}

/// The word of [`ROUTE`] for a value.
pub(crate) fn route_word(route: Route) -> &'static str {
    match route {
        Route::Tcp => TCP,
        _ => AUTO,
    }
}
