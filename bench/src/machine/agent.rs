//! What the host's agent costs an exchange of the engine: without one, with one that has no probes,
//! with probes, and read all the time, in turn. The last two need root and a build with probes.
//! Invariant: each take opens its own connections, because probes see only those that are opened
//! after them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use perigee_engine::EngineOptions;

use super::Bench;
use crate::baseline::rounds::{Beside, Taken};
use crate::ends::engine_end::EngineEnd;
use crate::ends::process::{Companion, Server};
use crate::error::BenchError;
use crate::limits::{POLL, START_DEADLINE, TRANSFER_TIMEOUT};
use crate::load::drive::{Measured, Span, drive};
use crate::load::window::{Share, WindowWorker};
use crate::nic;
use crate::report::{Cell, Figure, Goal, RateUnit, Row};
use crate::sample::Spread;
use crate::settings;
use crate::stop::Stop;

const BYTES: u64 = 4096;
/// Memory of each end.
const BUFFER: u64 = 16 << 20;
const NONE: &str = "no agent";
/// How often a page asks.
const LOOK: Duration = Duration::from_secs(1);

/// How an agent runs beside the exchange.
struct Kind {
    operation: &'static str,
    flag: &'static str,
    is_read: bool,
    /// How much longer an exchange may take.
    goal: f64,
}

const KINDS: [Kind; 3] = [
    Kind { operation: "exchange, level 0", flag: "--ebpf=false", is_read: false, goal: 1.02 },
    Kind { operation: "exchange, level 1", flag: "--ebpf=true", is_read: false, goal: 1.02 },
    Kind { operation: "exchange, read", flag: "--ebpf=true", is_read: true, goal: 1.03 },
];

/// Takes a row of each kind, each take between two without an agent.
pub(super) fn take(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let quiet = settings::quiet(bench.settings);
    let span = settings::duration(bench.settings).part(quiet.rounds);
    let mut taken = KINDS.each_ref().map(|_| KindRounds::default());
    for _ in 0..quiet.rounds {
        let mut before = exchanges(&span, bench.stop)?;
        for (kind, rounds) in KINDS.iter().zip(&mut taken) {
            let load = with_agent(kind, &span, bench.stop)?;
            let after = exchanges(&span, bench.stop)?;
            rounds.add(&load, &before, &after);
            before = after;
        }
    }
    for (kind, rounds) in KINDS.iter().zip(taken) {
        let slower = Spread::of(&rounds.slower);
        bench.note(format!(
            "{}: p50 of a round is {:.3} [{:.3}..{:.3}] times that without an agent",
            kind.operation, slower.median, slower.low, slower.high
        ));
        let figure =
            Figure::ratio(&format!("{}, p50, of that without", kind.operation), slower.median);
        bench.report.figures.push(figure.with_goal(Goal::AtMost(kind.goal)));
        let cell = Cell {
            operation: kind.operation,
            bytes: BYTES,
            depth: 1,
            threads: 1,
            unit: RateUnit::Bytes,
        };
        let mut taken = Taken::from(rounds.with);
        taken.beside.push(rounds.without);
        bench.report.rows.push(Row::of(&cell, &taken));
    }
    Ok(())
}

struct KindRounds {
    with: Measured,
    without: Beside,
    /// p50 with an agent by the mean of those before and after.
    slower: Vec<f64>,
}

impl Default for KindRounds {
    fn default() -> Self {
        Self { with: Measured::default(), without: Beside::new(NONE), slower: Vec::new() }
    }
}

impl KindRounds {
    fn add(&mut self, load: &Measured, before: &Measured, after: &Measured) {
        let rate = f64::midpoint(before.rate(), after.rate());
        self.without.ratios.push(load.rate() / rate.max(1e-9));
        let usual = f64::midpoint(p50(before), p50(after));
        self.slower.push(p50(load) / usual.max(1.0));
        self.with.add(load);
        self.without.measured.add(before);
        self.without.measured.add(after);
    }
}

fn p50(measured: &Measured) -> f64 {
    measured.latency.summary().map_or(0.0, |latency| latency.p50_ns as f64)
}

/// Writes of one block after the other, over connections of their own.
fn exchanges(span: &Span, stop: &Stop) -> Result<Measured, BenchError> {
    let target = Companion::start(&nic::target_words("tcp", BUFFER), nic::READY, None)?;
    let options = EngineOptions::new(nic::LOOPBACK, "P2PHANDSHAKE", "tcp", "")?;
    let end = EngineEnd::start(options, BUFFER, stop)?;
    let mover = end.towards(&target.ready, TRANSFER_TIMEOUT)?;
    let share = Share {
        operation: "write",
        bytes: BYTES,
        depth: 1,
        local: end.address(),
        remote: 0,
        room: BUFFER,
        verify: false,
    };
    drive(&mut [WindowWorker::new(&mover, share)?], span, stop)
}

fn with_agent(kind: &Kind, span: &Span, stop: &Stop) -> Result<Measured, BenchError> {
    let agent = Server::start(None, None, |port| {
        let port = format!("--port={port}");
        ["agent", &port, "--state_dir=", kind.flag].map(str::to_owned).to_vec()
    })?;
    // It answers when the host was read once, its probes attached.
    let deadline = Instant::now() + START_DEADLINE;
    while !ask(agent.address, "/readyz").is_ok_and(|answer| answer.contains(" 200 ")) {
        if Instant::now() > deadline {
            return Err(BenchError::program("agent", "it is not ready in time"));
        }
        std::thread::sleep(POLL);
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            while kind.is_read && !is_over.load(Ordering::Relaxed) {
                ask(agent.address, "/snapshot.json")?;
                std::thread::park_timeout(LOOK);
            }
            Ok::<(), std::io::Error>(())
        });
        let measured = exchanges(span, stop);
        is_over.store(true, Ordering::Relaxed);
        looking.thread().unpark();
        looking.join().map_err(|_| BenchError::LoadThread)??;
        measured
    })
}

/// The head of an answer; all of it is read.
fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&address, START_DEADLINE)?;
    socket.set_read_timeout(Some(START_DEADLINE))?;
    write!(socket, "GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    let head = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(head).into_owned())
}
