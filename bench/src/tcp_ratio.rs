//! `get` and `put` over TCP, against a one-thread memcpy of blocks of the same size between cold memories.
//! Invariant: the memcpy is taken directly before and after each round, and a round in which the machine was not quiet
//! does not count.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::{Route, open_store};
use crate::error::BenchError;
use crate::limits::{
    CEILING_DRIFT_MAX, COLD_BYTES, COLD_TIME, FOREIGN_SHARE_MAX, STEAL_SHARE_MAX, TRIES_PER_ROUND,
};
use crate::machine::{Watch, pin_to_cpu};
use crate::memory_pair::MemoryPair;
use crate::report::{Cell, Figure, Goal, Report};
use crate::sample::{Places, Spread};
use crate::workload::Workload;

/// Block size and blocks per call.
const CELLS: [(usize, usize); 4] = [(64 << 10, 16), (1 << 20, 4), (4 << 20, 4), (16 << 20, 4)];
/// The goal holds from this size up.
const LARGE_BYTES: usize = 1 << 20;

/// Options of `tcp-ratio`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Quiet rounds per row.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of transfers per round.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Congestion control: a name, `host` or `auto`.
    #[arg(long, default_value = "auto")]
    congestion: String,
    /// Client on CPU 0, master and node on CPU 1.
    #[arg(long)]
    pin: bool,
    /// Keep rounds in which the machine was not quiet.
    #[arg(long)]
    any_noise: bool,
}

/// The node's process.
struct Node {
    child: Child,
    address: String,
}

impl Node {
    fn start(options: &Options) -> Result<Self, BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "tcp-node",
            "--segment-bytes",
            &(5 * COLD_BYTES / 2).to_string(),
        ]);
        command.args(["--congestion", &options.congestion]);
        if options.pin {
            command.args(["--cpu", "1"]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut address)?;
        }
        let address = address.trim().to_owned();
        if address.is_empty() {
            return Err(BenchError::program(
                "tcp-node",
                format!("ended with {}", child.wait()?),
            ));
        }
        Ok(Self { child, address })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Measures.
pub(crate) fn run(options: &Options) -> Result<Report, BenchError> {
    let node = Node::start(options)?;
    if options.pin {
        pin_to_cpu(0)?;
    }
    let pair = MemoryPair::new(COLD_BYTES)?;
    let client = open_store(&node.address, 0, Route::Tcp, Some(&options.congestion))?;
    let pids = [std::process::id(), node.child.id()];
    let mut rows = Vec::new();
    let mut worst = [f64::MAX; 2];
    for (bytes, per_call) in CELLS {
        let mut workload = Workload::new(&client, &pair, bytes, per_call);
        workload.fill()?;
        workload.clear()?;
        for (at, call) in ["put", "get"].into_iter().enumerate() {
            if call == "get" {
                workload.fill()?;
                workload.read_all()?;
            }
            let mut once = || {
                if call == "get" {
                    workload.get()
                } else {
                    workload.put()
                }
            };
            let rounds = rounds(options, &pids, &pair, bytes, per_call, &mut once)?;
            workload.check_last()?;
            workload.clear()?;
            if bytes >= LARGE_BYTES {
                worst[at] = worst[at].min(rounds.ratio().median);
            }
            rows.push(rounds.row(call, bytes, per_call));
        }
    }
    client.close();
    Ok(report(options, rows, worst))
}

fn report(options: &Options, rows: Vec<Vec<Cell>>, worst: [f64; 2]) -> Report {
    let figure = |name: &str, value| Figure {
        name: name.to_owned(),
        value,
        unit: "of a cold memcpy",
        goal: Some(Goal::AtLeast(0.85)),
    };
    Report {
        figures: [
            figure("get over TCP from 1 MiB up, worst size", worst[1]),
            figure("put over TCP from 1 MiB up, worst size", worst[0]),
        ],
        columns: &[
            "call",
            "KiB",
            "in flight",
            "TCP GB/s",
            "memcpy GB/s",
            "ratio",
            "low",
            "high",
            "rounds",
            "dropped",
        ],
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

/// What the rounds of a row gave.
struct Rounds {
    tcp: Vec<f64>,
    memcpy: Vec<f64>,
    dropped: usize,
}

impl Rounds {
    fn ratio(&self) -> Spread {
        let ratios: Vec<f64> = self
            .tcp
            .iter()
            .zip(&self.memcpy)
            .map(|(tcp, memcpy)| tcp / memcpy)
            .collect();
        Spread::of(&ratios)
    }

    fn row(&self, call: &str, bytes: usize, per_call: usize) -> Vec<Cell> {
        let ratio = self.ratio();
        vec![
            Cell::Text(call.to_owned()),
            Cell::Number((bytes >> 10) as f64, 0),
            Cell::Number(per_call as f64, 0),
            Cell::Number(Spread::of(&self.tcp).median, 2),
            Cell::Number(Spread::of(&self.memcpy).median, 2),
            Cell::Number(ratio.median, 3),
            Cell::Number(ratio.low, 3),
            Cell::Number(ratio.high, 3),
            Cell::Number(self.tcp.len() as f64, 0),
            Cell::Number(self.dropped as f64, 0),
        ]
    }
}

/// Takes rounds until enough were quiet.
fn rounds(
    options: &Options,
    pids: &[u32],
    pair: &MemoryPair,
    bytes: usize,
    per_call: usize,
    call: &mut dyn FnMut() -> Result<Duration, BenchError>,
) -> Result<Rounds, BenchError> {
    let wanted = options.rounds.max(1);
    let mut places = Places::new(11);
    let mut taken = Rounds {
        tcp: Vec::new(),
        memcpy: Vec::new(),
        dropped: 0,
    };
    let mut why = String::new();
    for _ in 0..wanted * TRIES_PER_ROUND {
        let started = Instant::now();
        let watch = Watch::start(pids)?;
        let before = memcpy_rate(pair, bytes, &mut places);
        let (mut spent, mut calls) = (Duration::ZERO, 0_usize);
        while spent.as_secs_f64() < options.seconds {
            spent += call()?;
            calls += 1;
        }
        let after = memcpy_rate(pair, bytes, &mut places);
        let noise = watch.noise(started.elapsed())?;
        let drift = (before - after).abs() / before.max(after);
        let quiet = noise.foreign <= FOREIGN_SHARE_MAX
            && noise.stolen <= STEAL_SHARE_MAX
            && drift <= CEILING_DRIFT_MAX;
        if quiet || options.any_noise {
            taken
                .tcp
                .push((calls * per_call * bytes) as f64 / spent.as_nanos() as f64);
            taken.memcpy.push(f64::midpoint(before, after));
        } else {
            taken.dropped += 1;
            why = format!(
                "others took {:.0} %, stolen {:.0} %, memcpy moved by {:.0} %",
                noise.foreign * 100.0,
                noise.stolen * 100.0,
                drift * 100.0
            );
        }
        if taken.tcp.len() == wanted {
            return Ok(taken);
        }
    }
    Err(BenchError::Noise {
        kept: taken.tcp.len(),
        wanted,
        why,
    })
}

/// GB/s of a memcpy of blocks from random places to random places.
fn memcpy_rate(pair: &MemoryPair, bytes: usize, places: &mut Places) -> f64 {
    let start = Instant::now();
    let mut copied = 0;
    while start.elapsed() < COLD_TIME {
        let source = pair
            .segment()
            .wrapping_add(places.offset(bytes, COLD_BYTES));
        let target = pair.buffer().wrapping_add(places.offset(bytes, COLD_BYTES));
        // SAFETY: places leave room for `bytes` in either memory, and the memories are apart.
        unsafe { target.copy_from_nonoverlapping(source, bytes) };
        std::hint::black_box(target);
        copied += bytes;
    }
    copied as f64 / start.elapsed().as_nanos() as f64
}
