//! `perigee bench master`: metadata calls per second, memory per key, and memcached beside it where
//! it is installed. Invariant: a master that is not our own is only asked for keys that do not
//! exist, because stored keys would need a segment that others could be sent to.

use std::net::TcpListener;
use std::thread;

use perigee_flags::{Flag, Program, Settings, ValueKind};

use crate::baseline::memcached;
use crate::baseline::rounds::{Rounds, Taken};
use crate::cpu::pin_to_cpu;
use crate::ends::own_host;
use crate::ends::process::Server;
use crate::error::BenchError;
use crate::limits::{KEYS_MAX, KEYS_PER_CALL_MAX, THREADS_MAX};
use crate::load::drive::drive;
use crate::report::{Cell, Figure, FigureUnit, Goal, RateUnit, Report, Row};
use crate::run::{Run, Tool};
use crate::settings;
use crate::stop::Stop;
use load::{Ask, Asker, KEY_BYTES, PUT_BATCH, batches, client, key, mount, store_keys};

mod events;
pub(crate) mod load;
mod subscriber;
mod values;

/// Where a master of one shard, and memcached, run alone.
const SERVER_CPU: usize = 1;
/// Where those that ask run while two servers are compared.
const CLIENT_CPU: usize = 0;
/// The resolution of CPU times.
const CPU_SECONDS_MIN: f64 = 0.01;

const FLAGS: &[Flag] = &[
    Flag::new("master", ValueKind::Text, "", "HOST:PORT of a running master; its own if empty"),
    Flag::new("keys", ValueKind::Int64, "100000", "Keys to store in a master of its own")
        .within(PUT_BATCH as i128, KEYS_MAX),
    Flag::new("batch", ValueKind::Int64, "128", "Keys per call").within(1, KEYS_PER_CALL_MAX),
    Flag::new(
        "shards",
        ValueKind::Int64,
        "1",
        "Shards of a master of its own; one shard has a CPU to itself",
    )
    .within(1, THREADS_MAX),
    settings::THREADS,
    settings::DURATION,
    settings::ITERATIONS,
    settings::RATE,
    Flag::new(
        "memcached",
        ValueKind::Text,
        "memcached",
        "Program that existence checks of one shard are held against; left out where it is not installed",
    ),
    Flag::new(
        "events",
        ValueKind::Bool,
        "false",
        "Also put+remove and values with KV events, with and without a subscriber, against none",
    ),
    settings::ROUNDS,
    settings::ANY_NOISE,
];

const PROGRAM: Program = Program {
    name: "perigee bench master",
    version: env!("CARGO_PKG_VERSION"),
    summary: "metadata calls per second of a master",
    variable_prefix: "PERIGEE_BENCH_MASTER_",
    words: &[],
    tables: &[("Master", FLAGS), ("Output", settings::OUTPUT)],
};

pub(crate) const TOOL: Tool = Tool {
    name: "master",
    program: PROGRAM,
    examples: &[
        "perigee bench master                           # a master of its own",
        "perigee bench master --keys 1000000 --threads 2",
        "perigee bench master --events                  # what KV events cost puts",
        "perigee bench master --master 10.0.0.1:50051   # only keys that do not exist",
    ],
    run,
};

fn run(run: Run<'_>) -> Result<(), BenchError> {
    run.measure(|settings, stop, report| {
        report
            .notes
            .push("closed loop, unless --rate is given: each thread waits for its call".to_owned());
        measure(settings, stop, report)
    })
}

fn measure(settings: &Settings, stop: &Stop, report: &mut Report) -> Result<(), BenchError> {
    let names: Vec<String> = (0..settings.integer("keys")).map(key).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let has_events = settings.bool("events");
    if let Some(address) = settings.optional_text("master") {
        if has_events {
            let text = "--events takes masters of its own; leave --master or --events out";
            return Err(BenchError::conflict(text));
        }
        let note = "a master in use is only asked for keys that do not exist";
        report.notes.push(note.to_owned());
        report.loopback = own_host::is_this_machine(address);
        let asking = Asking::new(settings, address, &keys, stop);
        return asking.row(("absent", Ask::Absent), report);
    }
    report.loopback = true;
    let master = start(settings)?;
    let before = master.process.resident_bytes()?;
    let address = master.address.to_string();
    let owner = client(&address, 1);
    // Twice: what is put and removed in the last row lies beside what is stored.
    mount(&owner, keys.len() * 2)?;
    store_keys(&owner, &keys)?;
    let grown = master.process.resident_bytes()?.saturating_sub(before);
    let asking = Asking::new(settings, &address, &keys, stop);
    asking.exist(&master, report)?;
    asking.row(("locate", Ask::Locate), report)?;
    asking.row(("put+remove", Ask::Put), report)?;
    let figure = Figure {
        name: format!("memory per key of {KEY_BYTES} bytes"),
        value: grown as f64 / keys.len() as f64,
        unit: FigureUnit::Bytes,
        goal: Some(Goal::AtMost(300.0)),
    };
    report.figures.push(figure);
    drop(master);
    if has_events { events::rows(settings, &keys, stop, report) } else { Ok(()) }
}

/// The CPU of a server with one thread, where there are others for those that ask.
fn server_cpu() -> Option<usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores > SERVER_CPU).then_some(SERVER_CPU)
}

/// A master of our own: this program, in a process of its own.
fn start(settings: &Settings) -> Result<Server, BenchError> {
    let shards: u64 = settings.integer("shards");
    let cpu = server_cpu().filter(|_| shards == 1);
    Server::start(None, cpu, |port| master_words(port, shards))
}

/// Words that start a master on loopback whose clients never expire during a run.
fn master_words(port: u16, shards: u64) -> Vec<String> {
    let http = TcpListener::bind(("127.0.0.1", 0));
    let http = http.and_then(|listener| listener.local_addr()).map_or(0, |address| address.port());
    vec![
        "master".to_owned(),
        "--rpc_address=127.0.0.1".to_owned(),
        format!("--rpc_port={port}"),
        "--metrics_host=127.0.0.1".to_owned(),
        format!("--metrics_port={http}"),
        format!("--rpc_shards={shards}"),
        "--client_ttl=3600".to_owned(),
        // The segment of a load has no owner.
        "--verify_segments=false".to_owned(),
    ]
}

/// Threads that ask one master.
struct Asking<'a> {
    settings: &'a Settings,
    address: &'a str,
    keys: &'a [&'a str],
    stop: &'a Stop,
    threads: u64,
    batch: u64,
}

impl<'a> Asking<'a> {
    fn new(settings: &'a Settings, address: &'a str, keys: &'a [&'a str], stop: &'a Stop) -> Self {
        Self {
            settings,
            address,
            keys,
            stop,
            threads: settings.integer("threads"),
            batch: settings.integer("batch"),
        }
    }

    fn askers(&self, ask: Ask) -> Vec<Asker<'a>> {
        let asker = |thread: u64| {
            // Only the owner of the segment puts.
            let number = match ask {
                Ask::Put => 1,
                _ => 100 + u128::from(thread),
            };
            let client = client(self.address, number);
            Asker::new(client, self.keys, self.batch as usize, thread as usize, ask)
        };
        (0..self.threads).map(asker).collect()
    }

    fn row(&self, (operation, ask): (&str, Ask), report: &mut Report) -> Result<(), BenchError> {
        let span = settings::span(self.settings);
        let measured = drive(&mut self.askers(ask), &span, self.stop)?;
        self.push(operation, &measured.into(), report);
        Ok(())
    }

    fn push(&self, operation: &str, taken: &Taken, report: &mut Report) {
        let cell = Cell {
            operation,
            bytes: 0,
            depth: self.batch,
            threads: self.threads,
            unit: RateUnit::Keys,
        };
        let row = Row::of(&cell, taken);
        report.warn_of_dropped(&row, taken.dropped);
        report.warn_of_overdue(&row, taken.load.overdue);
        report.figures.push(Figure::rate(&row));
        report.rows.push(row);
    }

    /// Existence checks, beside memcached's multi-get of the same keys if both have one thread.
    fn exist(&self, master: &Server, report: &mut Report) -> Result<(), BenchError> {
        let program = self.settings.text("memcached");
        let is_single = self.settings.integer::<u64>("shards") == 1;
        let rate: u64 = self.settings.integer("rate");
        if !is_single || rate > 0 || !memcached::is_installed(program) {
            let note = format!(
                "not held against memcached: that takes one shard, no --rate, and {program} on the PATH"
            );
            report.notes.push(note);
            return self.row(("exist", Ask::Exist), report);
        }
        let server = memcached::start(program, self.keys, server_cpu())?;
        // A thread of its own: only those that ask here and now are kept on one CPU.
        let held = thread::scope(|scope| {
            let held = scope.spawn(|| self.held(master, &server));
            held.join().unwrap_or(Err(BenchError::LoadThread))
        })?;
        self.push("exist", &held.taken, report);
        report.figures.extend(held.figures);
        let note = "exist: both servers have one CPU, the threads that ask another";
        report.notes.push(note.to_owned());
        Ok(())
    }

    fn held(&self, master: &Server, server: &Server) -> Result<MasterComparison, BenchError> {
        if server_cpu().is_some() {
            pin_to_cpu(CLIENT_CPU)?;
        }
        let batches = |thread: u64| batches(self.keys, self.batch as usize, thread as usize);
        let batches: Vec<_> = (0..self.threads).map(batches).collect();
        let others = memcached::baseline(server.address, &batches, self.stop)?;
        let mut askers = self.askers(Ask::Exist);
        let pids = [std::process::id(), master.process.pid(), server.process.pid()];
        let mut rounds = Rounds {
            quiet: settings::quiet(self.settings),
            pids: &pids,
            baselines: vec![Box::new(others)],
        };
        let cpu = || -> Result<[f64; 2], BenchError> {
            Ok([master.process.cpu_seconds()?, server.process.cpu_seconds()?])
        };
        let before = cpu()?;
        let span = settings::span(self.settings);
        let taken = rounds.take(&span, &mut |span| drive(&mut askers, span, self.stop))?;
        let after = cpu()?;
        Ok(MasterComparison::of(taken, [0, 1].map(|at| after[at] - before[at])))
    }
}

/// Existence checks beside memcached.
struct MasterComparison {
    taken: Taken,
    figures: Vec<Figure>,
}

impl MasterComparison {
    /// `cpu_seconds` are those of the master and of memcached.
    fn of(taken: Taken, cpu_seconds: [f64; 2]) -> Self {
        let mut figures = Vec::new();
        if let Some(beside) = taken.beside.first().filter(|_| taken.dropped == 0) {
            let per_second =
                |keys: u64, at: usize| keys as f64 / cpu_seconds[at].max(CPU_SECONDS_MIN);
            let ours = per_second(taken.load.units, 0);
            let theirs = per_second(beside.measured.units, 1);
            let name = "exist per CPU second, of memcached's multi-get";
            figures.push(Figure::ratio(name, ours / theirs.max(1e-9)));
        }
        if let Some(beside) = taken.beside.first() {
            let name = "exist per second, of memcached's multi-get";
            let ratio = Figure::ratio(name, beside.ratio().median);
            figures.push(ratio.with_goal(Goal::AtLeast(2.0)));
        }
        Self { taken, figures }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use perigee_flags::{ProcessEnvironment, ProgramStart};

    use super::*;

    #[test]
    fn a_master_that_does_not_answer_ends_the_run_with_its_address() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let words = [format!("--master={address}"), "--iterations=1".to_owned()];
        let settings = match PROGRAM.load(&words, &ProcessEnvironment::of(&[])).unwrap() {
            ProgramStart::Run(settings) => settings,
            ProgramStart::Print(text) => panic!("{text}"),
        };
        let mut report = Report::begin("master", crate::facts::samples::machine(), BTreeMap::new());
        let error = measure(&settings, &Stop::default(), &mut report).unwrap_err();
        assert!(error.to_string().contains(&address), "{error}");
        assert!(report.rows.is_empty());
    }
}
