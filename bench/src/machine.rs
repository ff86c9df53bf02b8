//! `perigee bench machine`: what this machine can do, and what our parts take of it, each alone and
//! without a cluster.
//! Invariant: what is compared is taken in turn within one run; absolute numbers are shown but
//! prove nothing.

use perigee_flags::{Flag, Program, Settings, ValueKind};

use crate::error::BenchError;
use crate::limits::{BUFFER_BYTES_MAX, KEYS_MAX};
use crate::load::drive::Measured;
use crate::report::{Cell, RateUnit, Report, Row};
use crate::run::{Run, Tool};
use crate::settings;
use crate::stop::Stop;

mod agent;
mod allocator;
mod copies;
mod packed;
mod probes;
mod queue_pair;
mod rebuild;
mod record;
mod shard;
mod tcp;

/// What is measured under each word, and whether a run that names nothing takes it.
const PARTS: [(&str, bool, Part); 11] = [
    ("copies", true, copies::take),
    ("tcp", true, tcp::take),
    ("allocator", true, allocator::take),
    ("master", true, shard::take),
    ("packed", true, packed::take),
    ("rebuild", true, rebuild::take),
    ("record", true, record::take),
    ("kernels", false, copies::take_kernels),
    ("rdma", false, queue_pair::take),
    ("probes", false, probes::take),
    ("agent", false, agent::take),
];
/// The words of `--what` that a run takes which names none.
const USUAL: &str = "usual";

type Part = fn(&mut Bench<'_>) -> Result<(), BenchError>;

const FLAGS: &[Flag] = &[
    Flag::new(
        "what",
        ValueKind::Text,
        USUAL,
        "copies, tcp, allocator, master, packed, rebuild, record (usual); kernels: the copy with each of the CPU's; rdma: bare queue \
         pairs; probes: what eBPF probes cost (root); agent: what the host's agent costs an exchange (root); several with commas",
    ),
    settings::size("0", "Bytes of copied blocks; 0 is 64 KiB to 16 MiB"),
    Flag::new(
        "memory",
        ValueKind::SizeBytes,
        "512MiB",
        "Each of two memories that blocks are copied between",
    )
    .within(16 << 20, BUFFER_BYTES_MAX),
    Flag::new(
        "allocations",
        ValueKind::Int64,
        "1000000",
        "Allocations per mix of sizes; fewer than 200000 do not fill the range",
    )
    .within(1, KEYS_MAX),
    Flag::new("keys", ValueKind::Int64, "1000000", "Keys of a master's shard").within(1, KEYS_MAX),
    Flag::new("device", ValueKind::Text, "", "Two RDMA devices, with a comma"),
    settings::DURATION,
    settings::ROUNDS,
    settings::ANY_NOISE,
];

pub(crate) const TOOL: Tool = Tool {
    name: "machine",
    program: Program {
        name: "perigee bench machine",
        version: env!("CARGO_PKG_VERSION"),
        summary: "what this machine can do, and our parts against it",
        variable_prefix: "PERIGEE_BENCH_MACHINE_",
        words: &[],
        tables: &[("Parts", FLAGS), ("Output", settings::OUTPUT)],
    },
    examples: &[
        "perigee bench machine",
        "perigee bench machine --what copies,kernels --size 1MiB",
        "perigee bench machine --what rdma --device mlx5_0,mlx5_1",
    ],
    run,
};

fn run(run: Run<'_>) -> Result<(), BenchError> {
    let parts = parts(run.settings.text("what"))?;
    run.measure(|settings, stop, report| {
        report.loopback = true;
        let mut bench = Bench { settings, stop, report };
        parts.iter().try_for_each(|part| bench.take(*part))
    })
}

/// The parts that words with commas name.
fn parts(words: &str) -> Result<Vec<Part>, BenchError> {
    let mut parts = Vec::new();
    for word in words.split(',').map(str::trim) {
        let named = PARTS.iter().filter(|(name, is_usual, _)| match word {
            USUAL => *is_usual,
            word => *name == word,
        });
        let before = parts.len();
        parts.extend(named.map(|(.., part)| *part));
        if parts.len() == before {
            let known: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
            let known = known.join(", ");
            let text = format!("--what {word} is unknown; there are {USUAL}, {known}");
            return Err(BenchError::conflict(text));
        }
    }
    Ok(parts)
}

/// A run and what it has found.
struct Bench<'a> {
    settings: &'a Settings,
    stop: &'a Stop,
    report: &'a mut Report,
}

impl Bench<'_> {
    fn take(&mut self, part: Part) -> Result<(), BenchError> {
        if self.stop.is_set() {
            return Err(BenchError::Interrupted);
        }
        part(self)
    }

    /// A row that is held against nothing.
    fn push(&mut self, operation: &str, unit: RateUnit, measured: &Measured) {
        let row = Row::total(&alone(operation, unit), measured);
        self.report.rows.push(row);
    }

    fn note(&mut self, text: impl Into<String>) {
        self.report.notes.push(text.into());
    }
}

/// Work of one thread, one operation at a time.
fn alone(operation: &str, unit: RateUnit) -> Cell<'_> {
    Cell { operation, bytes: 0, depth: 1, threads: 1, unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_parts_and_an_unknown_one_is_refused() {
        assert_eq!(parts(USUAL).unwrap().len(), 7);
        assert_eq!(parts("copies, kernels").unwrap().len(), 2);
        let error = parts("copies,kopies").unwrap_err();
        assert!(error.to_string().contains("allocator"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
