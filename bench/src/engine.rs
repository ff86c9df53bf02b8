//! `perigee bench engine`: the transfer engine over TCP between two processes of this machine,
//! beside what the machine does without it. Invariant: both sides of a ratio are taken in turn
//! within one run.

use perigee_engine::EngineOptions;
use perigee_flags::{Flag, Program, Settings, ValueKind};

use crate::baseline::copy::{Towards, Work, baseline};
use crate::baseline::ping_pong::PingPongs;
use crate::baseline::pump::{Pump, Pumping};
use crate::baseline::rounds::{Baseline, Rounds};
use crate::cpu::pin_to_cpu;
use crate::ends::engine_end::{EngineEnd, EngineMover};
use crate::ends::memory_pair::MemoryPair;
use crate::ends::process::Companion;
use crate::error::BenchError;
use crate::limits::{BUFFER_BYTES_MAX, DEPTH_MAX, TRANSFER_TIMEOUT};
use crate::load::drive::{Span, drive};
use crate::load::window::{Share, WindowWorker};
use crate::nic;
use crate::report::{Cell, Figure, Goal, RateUnit, Report, Row, bytes_text};
use crate::run::{Run, Tool};
use crate::settings;
use crate::stop::Stop;

/// Bytes per operation and operations in flight of a run that names none.
const LOADS: [(u64, u64); 3] = [(4 << 10, 1), (64 << 10, 16), (1 << 20, 4)];
/// Up to so many bytes an operation alone is held against a ping-pong.
const SMALL_BYTES: u64 = 4096;

const LOAD: &[Flag] = &[
    Flag::new("operation", ValueKind::Text, "both", "write, read or both")
        .one_of(&["both", "write", "read"]),
    settings::size("0", "Bytes per operation; 0 is 4 KiB alone, 64 KiB x 16 and 1 MiB x 4"),
    Flag::new("depth", ValueKind::Int64, "4", "Operations in flight, with --size")
        .within(1, DEPTH_MAX),
    Flag::new(
        "buffer",
        ValueKind::SizeBytes,
        "1GiB",
        "Memory of each end, and of a baseline; far more than the caches",
    )
    .within(1, BUFFER_BYTES_MAX),
    settings::PIN,
    settings::DURATION,
    settings::RATE,
    settings::ROUNDS,
    settings::ANY_NOISE,
];

const PROGRAM: Program = Program {
    name: "perigee bench engine",
    version: env!("CARGO_PKG_VERSION"),
    summary: "the transfer engine over TCP, against this machine",
    variable_prefix: "PERIGEE_BENCH_ENGINE_",
    words: &[],
    tables: &[("Load", LOAD), ("Output", settings::OUTPUT)],
};

pub(crate) const TOOL: Tool = Tool {
    name: "engine",
    program: PROGRAM,
    examples: &[
        "perigee bench engine                  # memcpy, a pump and a ping-pong",
        "perigee bench engine --pin --rounds 9",
        "PERIGEE_TCP_CONGESTION=bbr perigee bench engine --size 16MiB",
    ],
    run,
};

fn run(run: Run<'_>) -> Result<(), BenchError> {
    let loads = loads(&run.settings)?;
    run.measure(|settings, stop, report| {
        report.loopback = true;
        report.notes.push(note(settings).to_owned());
        let taken = measure(settings, &loads, stop, report);
        report.figures.extend(figures(&report.rows));
        taken
    })
}

fn is_open(settings: &Settings) -> bool {
    settings.integer::<u64>("rate") > 0
}

fn note(settings: &Settings) -> &'static str {
    if is_open(settings) {
        return "open loop: operations begin on time, one in flight, and latencies count from the time they were \
                due; held against nothing, as nothing else has the rate";
    }
    "baselines were taken before and after each round, between memories as large as the buffers"
}

/// Bytes and depths that fit the buffer.
fn loads(settings: &Settings) -> Result<Vec<(u64, u64)>, BenchError> {
    if is_open(settings) && settings.is_given("depth") {
        return Err(BenchError::conflict(
            "With --rate one operation is in flight; leave --depth out, or use bench nic with --threads",
        ));
    }
    let mut loads = match settings.integer("size") {
        0 => LOADS.to_vec(),
        bytes => vec![(bytes, settings.integer("depth"))],
    };
    if is_open(settings) {
        loads.iter_mut().for_each(|(_, depth)| *depth = 1);
    }
    let buffer: u64 = settings.integer("buffer");
    let needed = loads.iter().map(|(bytes, depth)| bytes.saturating_mul(*depth));
    let needed = needed.max().unwrap_or(0);
    if needed <= buffer {
        return Ok(loads);
    }
    Err(BenchError::conflict(format!(
        "{} in flight do not fit a buffer of {}; pass --buffer {}",
        bytes_text(needed),
        bytes_text(buffer),
        bytes_text(needed).replace(' ', "")
    )))
}

fn measure(
    settings: &Settings,
    loads: &[(u64, u64)],
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let buffer: u64 = settings.integer("buffer");
    let far_cpu = settings.bool("pin").then_some(1);
    let target = Companion::start(&nic::target_words("tcp", buffer), nic::READY, far_cpu)?;
    if far_cpu.is_some() {
        pin_to_cpu(0)?;
    }
    let options = EngineOptions::new(nic::LOOPBACK, "P2PHANDSHAKE", "tcp", "")?;
    let end = EngineEnd::start(options, buffer, stop)?;
    let pids = [std::process::id(), target.process.pid()];
    let pair = MemoryPair::new(buffer as usize)?;
    let held = EngineRun {
        settings,
        mover: end.towards(&target.ready, TRANSFER_TIMEOUT)?,
        local: end.address(),
        pair: &pair,
        far_cpu,
        pids: &pids,
        stop,
    };
    let operations: &[&'static str] = match settings.text("operation") {
        "write" => &["write"],
        "read" => &["read"],
        _ => &["write", "read"],
    };
    for operation in operations {
        for (bytes, depth) in loads {
            held.row(operation, *bytes, *depth, report)?;
        }
    }
    Ok(())
}

/// The engine, and what it is held against.
struct EngineRun<'a> {
    settings: &'a Settings,
    mover: EngineMover<'a>,
    /// Address of the buffer.
    local: u64,
    /// The memories of baselines.
    pair: &'a MemoryPair,
    far_cpu: Option<usize>,
    pids: &'a [u32],
    stop: &'a Stop,
}

impl EngineRun<'_> {
    fn row(
        &self,
        operation: &'static str,
        bytes: u64,
        depth: u64,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let share = Share {
            operation,
            bytes,
            depth,
            local: self.local,
            remote: 0,
            room: self.settings.integer("buffer"),
            verify: false,
        };
        let mut window = [WindowWorker::new(&self.mover, share)?];
        let span = settings::duration(self.settings);
        // The first pass touches the pages of both ends.
        drive(&mut window, &Span::cold(span.duration / 4), self.stop)?;
        let mut rounds = Rounds {
            quiet: settings::quiet(self.settings),
            pids: self.pids,
            baselines: self.baselines(operation, bytes as usize, depth),
        };
        let mut load = |span: &Span| drive(&mut window, span, self.stop);
        let taken = match is_open(self.settings) {
            true => load(&span.at_rate(self.settings.integer("rate")))?.into(),
            false => rounds.take(&span, &mut load)?,
        };
        let cell = Cell { operation, bytes, depth, threads: 1, unit: RateUnit::Bytes };
        let row = Row::of(&cell, &taken);
        report.warn_of_dropped(&row, taken.dropped);
        report.warn_of_overdue(&row, taken.load.overdue);
        report.rows.push(row);
        Ok(())
    }

    fn baselines(&self, operation: &str, bytes: usize, depth: u64) -> Vec<Box<dyn Baseline + '_>> {
        if depth == 1 && bytes as u64 <= SMALL_BYTES {
            return vec![Box::new(PingPongs { bytes, cpu: self.far_cpu, stop: self.stop })];
        }
        let copy = baseline(self.pair, Work::Memcpy, Towards::Buffer, bytes, self.stop);
        let pump =
            Pump { gets: operation == "read", bytes, depth: depth as usize, cpu: self.far_cpu };
        let pair = self.pair;
        vec![Box::new(copy), Box::new(Pumping { pump, pair })]
    }
}

/// What the rows come to, worse direction: shares of a memcpy and of the pump, and how long a small
/// operation takes.
fn figures(rows: &[Row]) -> Vec<Figure> {
    let sized = |bytes: u64, depth: u64| {
        let is_it = move |row: &&Row| (row.bytes, row.depth) == (bytes, depth);
        rows.iter().filter(is_it)
    };
    let bulk = |bytes: u64, depth: u64, goal: f64| {
        let name = format!("{} x {depth}", bytes_text(bytes));
        let worst = Figure::worst(sized(bytes, depth), &name, "cold memcpy")?;
        Some(worst.with_goal(Goal::AtLeast(goal)))
    };
    let writes = rows.iter().filter(|row| row.operation == "write");
    let ratios = writes.filter_map(|row| row.slower_than("polling ping-pong"));
    let small = ratios.reduce(f64::max).map(|ratio| {
        let name = "single small write, p50, of a polling ping-pong";
        Figure::ratio(name, ratio).with_goal(Goal::AtMost(1.3))
    });
    let all = [
        bulk(1 << 20, 4, 0.9),
        bulk(64 << 10, 16, 0.6),
        Figure::worst(rows.iter(), "all rows", "bare pump"),
        small,
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use perigee_flags::{ProcessEnvironment, ProgramStart};

    use super::*;

    fn loads_of(words: &[&str]) -> Result<Vec<(u64, u64)>, BenchError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match PROGRAM.load(&words, &ProcessEnvironment::of(&[]))? {
            ProgramStart::Run(settings) => loads(&settings),
            ProgramStart::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn loads_are_the_usual_ones_or_the_one_asked_for() {
        assert_eq!(loads_of(&[]).unwrap(), LOADS);
        assert_eq!(loads_of(&["--size=8k", "--depth=2"]).unwrap(), [(8192, 2)]);
        assert_eq!(loads_of(&["--size=8k", "--rate=10"]).unwrap(), [(8192, 1)]);
        assert!(loads_of(&["--rate=10", "--depth=2"]).is_err());
    }

    #[test]
    fn what_does_not_fit_the_buffer_is_refused() {
        let error = loads_of(&["--size=1MiB", "--depth=8", "--buffer=4MiB"]).unwrap_err();
        assert!(error.to_string().contains("--buffer 8MiB"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
