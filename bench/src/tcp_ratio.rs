//! `get` and `put` over TCP, against a one-thread memcpy of blocks of the same size between cold memories and against
//! the bare kernel path. Invariant: both are taken directly before and after each round, and a round in which the
//! machine was not quiet does not count.

use std::time::Duration;

use crate::cold::{COLUMNS, Quiet, against_pump, rounds};
use crate::limits::COLD_BYTES;
use crate::pump::Pump;
use crate::report::{Cell, Figure, Goal, Report};
use crate::tcp_node::READY;
use perigee_runner::BenchError;
use perigee_runner::cluster::{Route, open_store};
use perigee_runner::companion::Companion;
use perigee_runner::machine::pin_to_cpu;
use perigee_runner::memory_pair::MemoryPair;
use perigee_runner::workload::Workload;

/// Block size and blocks per call.
const CELLS: [(usize, usize); 4] = [(64 << 10, 16), (1 << 20, 4), (4 << 20, 4), (16 << 20, 4)];
/// The goal holds from this size up.
const LARGE_BYTES: usize = 1 << 20;

/// Options of `tcp-ratio`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    quiet: Quiet,
    /// Congestion control: a name, `host` or `auto`.
    #[arg(long, default_value = "auto")]
    congestion: String,
    /// Client on CPU 0, master and node on CPU 1.
    #[arg(long)]
    pin: bool,
}

/// Starts the node's process.
fn start_node(options: &Options) -> Result<Companion, BenchError> {
    let mut words = vec![
        "tcp-node".to_owned(),
        format!("--segment-bytes={}", 5 * COLD_BYTES / 2),
        format!("--congestion={}", options.congestion),
    ];
    if options.pin {
        words.push("--cpu=1".to_owned());
    }
    Companion::start(&words, READY)
}

/// Measures.
pub(crate) fn run(options: &Options) -> Result<Report, BenchError> {
    let node = start_node(options)?;
    if options.pin {
        pin_to_cpu(0)?;
    }
    let pair = MemoryPair::new(COLD_BYTES)?;
    let client = open_store(node.ready(), 0, Route::Tcp, Some(&options.congestion))?;
    let pids = [std::process::id(), node.pid()];
    let mut rows = Vec::new();
    let (mut worst, mut to_pump) = ([f64::MAX; 2], f64::MAX);
    for (bytes, per_call) in CELLS {
        let mut workload = Workload::new(&client, &pair, bytes, per_call);
        workload.fill()?;
        workload.clear()?;
        for (at, call) in ["put", "get"].into_iter().enumerate() {
            if call == "get" {
                workload.fill()?;
                workload.read_all()?;
            }
            let mut load = |time: Duration| {
                let (mut spent, mut moved) = (Duration::ZERO, 0);
                while spent < time {
                    spent += match call {
                        "get" => workload.get(),
                        _ => workload.put(),
                    }?;
                    moved += per_call * bytes;
                }
                Ok((spent, moved))
            };
            let pump = Pump {
                gets: call == "get",
                bytes,
                depth: per_call,
                cpu: options.pin.then_some(1),
            };
            let rounds = rounds(&options.quiet, &pids, &pair, &pump, &mut load)?;
            workload.check_last()?;
            workload.clear()?;
            to_pump = to_pump.min(rounds.to_pump().median);
            if bytes >= LARGE_BYTES {
                worst[at] = worst[at].min(rounds.ratio().median);
            }
            rows.push(rounds.row(call, bytes, per_call));
        }
    }
    client.close();
    Ok(report(options, rows, worst, to_pump))
}

fn report(options: &Options, rows: Vec<Vec<Cell>>, worst: [f64; 2], to_pump: f64) -> Report {
    let figure = |name: &str, value| Figure {
        name: name.to_owned(),
        value,
        unit: "of a cold memcpy",
        goal: Some(Goal::AtLeast(0.85)),
    };
    Report {
        figures: vec![
            figure("get over TCP from 1 MiB up, worst size", worst[1]),
            figure("put over TCP from 1 MiB up, worst size", worst[0]),
            against_pump("get and put over TCP, worst row", to_pump),
        ],
        columns: COLUMNS,
        rows,
        notes: vec![format!(
            "congestion control {}; {}; checksums on",
            options.congestion,
            if options.pin {
                "client on CPU 0, node on CPU 1"
            } else {
                "not pinned"
            }
        )],
    }
}
