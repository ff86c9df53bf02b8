//! The transfer engine over TCP: bulk against a one-thread cold memcpy, and single small writes against a ping-pong of
//! two polling io_urings. Invariant: both sides of a ratio are taken in turn within one run.

use std::time::{Duration, Instant};

use perigee_engine::EngineOptions;
use perigee_runner::BenchError;
use perigee_runner::companion::Companion;
use perigee_runner::drive::Worker as _;
use perigee_runner::engine_end::{EngineEnd, EngineMover};
use perigee_runner::machine::pin_to_cpu;
use perigee_runner::memory_pair::MemoryPair;
use perigee_runner::sample::Spread;
use perigee_runner::stop::Stop;
use perigee_runner::window::{Share, WindowWorker};

use crate::cold::{COLUMNS, Quiet, against_pump, rounds};
use crate::engine_target::READY;
use crate::limits::{COLD_BYTES, SMALL_BYTES, SMALL_CALLS, TRANSFER_DEADLINE};
use crate::ping_pong::PingPong;
use crate::pump::Pump;
use crate::report::{Cell, Figure, Goal, Report};

/// Bytes per operation, operations in flight, and the least share of the memcpy wanted.
const CELLS: [(usize, u64, f64); 2] = [(64 << 10, 16, 0.6), (1 << 20, 4, 0.9)];

/// Options of `engine-ratio`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    quiet: Quiet,
    /// Congestion control: a name, `host` or `auto`.
    #[arg(long, default_value = "auto")]
    congestion: String,
    /// This process on CPU 0, the target on CPU 1.
    #[arg(long)]
    pin: bool,
}

/// Starts the target's process.
fn start_target(options: &Options) -> Result<Companion, BenchError> {
    let mut words = vec![
        "engine-target".to_owned(),
        format!("--congestion={}", options.congestion),
    ];
    if options.pin {
        words.push("--cpu=1".to_owned());
    }
    Companion::start(&words, READY)
}

/// Options of an engine at one end.
pub(crate) fn engine_options(congestion: &str) -> Result<EngineOptions, BenchError> {
    let variable = |name: &str| match name {
        "PERIGEE_TCP_CONGESTION" => Some(congestion.to_owned()),
        _ => std::env::var(name).ok().filter(|value| !value.is_empty()),
    };
    let options = EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "tcp", "", variable)?;
    Ok(options)
}

/// Measures.
pub(crate) fn run(options: &Options) -> Result<Report, BenchError> {
    let target = start_target(options)?;
    if options.pin {
        pin_to_cpu(0)?;
    }
    let engine = engine_options(&options.congestion)?;
    let end = EngineEnd::start(engine, COLD_BYTES as u64, &Stop::default())?;
    let mover = end.towards(target.ready(), TRANSFER_DEADLINE)?;
    let small = small_writes(&mover, &end, options)?;
    let pair = MemoryPair::new(COLD_BYTES)?;
    let pids = [std::process::id(), target.pid()];
    let mut rows = Vec::new();
    let (mut worst, mut to_pump) = ([f64::MAX; CELLS.len()], f64::MAX);
    for operation in ["write", "read"] {
        for (at, (bytes, depth, _)) in CELLS.into_iter().enumerate() {
            let mut load = |time| bulk(&mover, &end, operation, bytes, depth, time);
            // The first pass touches the pages of both ends.
            load(Duration::from_secs(1))?;
            let pump = Pump {
                gets: operation == "read",
                bytes,
                depth: depth as usize,
                cpu: options.pin.then_some(1),
            };
            let rounds = rounds(&options.quiet, &pids, &pair, &pump, &mut load)?;
            to_pump = to_pump.min(rounds.to_pump().median);
            worst[at] = worst[at].min(rounds.ratio().median);
            rows.push(rounds.row(operation, bytes, depth as usize));
        }
    }
    Ok(report(options, rows, (worst, to_pump), small))
}

/// Moves for about `time`; returns how long it took and how many bytes.
fn bulk(
    mover: &EngineMover<'_>,
    end: &EngineEnd,
    operation: &'static str,
    bytes: usize,
    depth: u64,
    time: Duration,
) -> Result<(Duration, usize), BenchError> {
    let share = Share {
        operation,
        bytes: bytes as u64,
        depth,
        local: end.address(),
        remote: 0,
        room: COLD_BYTES as u64,
        verify: false,
    };
    let mut window = WindowWorker::new(mover, share)?;
    let (started, mut moved) = (Instant::now(), 0);
    while started.elapsed() < time {
        moved += window.step(u64::MAX)?.units as usize;
    }
    while let Some(step) = window.drain()? {
        moved += step.units as usize;
    }
    Ok((started.elapsed(), moved))
}

/// Medians of single small writes and of ping-pongs, in nanoseconds, one pair per round.
struct Small {
    engine: Vec<f64>,
    ping_pong: Vec<f64>,
}

impl Small {
    fn ratio(&self) -> Spread {
        let pairs = self.engine.iter().zip(&self.ping_pong);
        Spread::of(&pairs.map(|(one, other)| one / other).collect::<Vec<_>>())
    }
}

fn small_writes(
    mover: &EngineMover<'_>,
    end: &EngineEnd,
    options: &Options,
) -> Result<Small, BenchError> {
    let share = Share {
        operation: "write",
        bytes: SMALL_BYTES as u64,
        depth: 1,
        local: end.address(),
        remote: 0,
        room: COLD_BYTES as u64,
        verify: false,
    };
    let mut window = WindowWorker::new(mover, share)?;
    let mut small = Small {
        engine: Vec::new(),
        ping_pong: Vec::new(),
    };
    for _ in 0..options.quiet.rounds() {
        small
            .engine
            .push(median(&mut || Ok(window.step(u64::MAX)?.took))?);
        // A new pair each time: one that waits would poll while the engine is measured.
        let mut ping_pong = PingPong::start(SMALL_BYTES, options.pin.then_some(1))?;
        small.ping_pong.push(median(&mut || ping_pong.once())?);
    }
    Ok(small)
}

fn median(call: &mut dyn FnMut() -> Result<Duration, BenchError>) -> Result<f64, BenchError> {
    let took = (0..SMALL_CALLS)
        .map(|_| Ok(call()?.as_nanos() as f64))
        .collect::<Result<Vec<_>, BenchError>>()?;
    Ok(Spread::of(&took).median)
}

fn report(
    options: &Options,
    rows: Vec<Vec<Cell>>,
    (worst, to_pump): ([f64; CELLS.len()], f64),
    small: Small,
) -> Report {
    let ratio = small.ratio();
    let note = format!(
        "write of 4 KiB, median of rounds: engine {:.1} us, io_uring ping-pong {:.1} us, ratio {:.2} ({:.2}..{:.2})",
        Spread::of(&small.engine).median / 1e3,
        Spread::of(&small.ping_pong).median / 1e3,
        ratio.median,
        ratio.low,
        ratio.high
    );
    let bulk = |at: usize| {
        let (bytes, depth, goal) = CELLS[at];
        Figure {
            name: format!(
                "engine over TCP, {} KiB x {depth}, worse direction",
                bytes >> 10
            ),
            value: worst[at],
            unit: "of a cold memcpy",
            goal: Some(Goal::AtLeast(goal)),
        }
    };
    let small = Figure {
        name: "single write of 4 KiB, p50".to_owned(),
        value: ratio.median,
        unit: "of a polling io_uring ping-pong",
        goal: Some(Goal::AtMost(1.3)),
    };
    Report {
        figures: vec![
            bulk(1),
            bulk(0),
            against_pump("engine over TCP, worst row", to_pump),
            small,
        ],
        columns: COLUMNS,
        rows,
        notes: vec![
            note,
            format!(
                "congestion control {}; {}",
                options.congestion,
                if options.pin {
                    "ends on CPUs 0 and 1"
                } else {
                    "not pinned"
                }
            ),
        ],
    }
}
