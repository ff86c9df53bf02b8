//! `perigee bench master`: metadata calls per second. Invariant: a master that is not our own is only asked for keys that
//! do not exist, because stored keys would need a segment that others could be sent to.

use std::collections::BTreeMap;

use perigee_flags::{Environment, Flag, Kind, Outcome, Program, Settings};

use crate::command::Output;
use crate::drive::drive;
use crate::error::BenchError;
use crate::facts::Machine;
use crate::limits::{KEYS_MAX, KEYS_PER_CALL_MAX, THREADS_MAX};
use crate::load_flags;
use crate::master_load::{Ask, Asker, PUT_BATCH, client, key, mount, store_keys};
use crate::own_host;
use crate::program::Program as Process;
use crate::report::{BandwidthUnit, Cell, Figure, FigureUnit, RateUnit, Report, Row};
use crate::stop::Stop;

const FLAGS: &[Flag] = &[
    Flag::new(
        "master",
        Kind::Text,
        "",
        "HOST:PORT of a running master; its own if empty",
    ),
    Flag::new(
        "keys",
        Kind::Int64,
        "100000",
        "Keys to store in a master of its own",
    )
    .within(PUT_BATCH as i128, KEYS_MAX),
    Flag::new("batch", Kind::Int64, "128", "Keys per call").within(1, KEYS_PER_CALL_MAX),
    Flag::new("shards", Kind::Int64, "1", "Shards of a master of its own").within(1, THREADS_MAX),
    Flag::new("threads", Kind::Int64, "1", "Threads that ask").within(1, THREADS_MAX),
    load_flags::DURATION,
    load_flags::iterations("Calls per row instead of a time; 0 is by time"),
    load_flags::FORMAT,
];

/// The command as its settings see it.
const MASTER: Program = Program {
    name: "perigee bench master",
    version: env!("CARGO_PKG_VERSION"),
    summary: "metadata calls per second of a master",
    variable_prefix: "PERIGEE_BENCH_MASTER_",
    words: &[],
    tables: &[("Master", FLAGS)],
};

const EXAMPLES: &[&str] = &[
    "perigee bench master                           # a master of its own",
    "perigee bench master --batch 1 --threads 2     # single keys",
    "perigee bench master --master 10.0.0.1:50051   # only asks for keys that do not exist",
];

/// Runs the tool.
pub(crate) fn run(
    arguments: &[String],
    environment: &Environment,
    output: Output<'_>,
) -> Result<(), BenchError> {
    let settings = match MASTER.load(arguments, environment)? {
        Outcome::Print(text) => return Ok(output(&crate::help::with_examples(&text, EXAMPLES))?),
        Outcome::Run(settings) => settings,
    };
    let stop = Stop::on_signals()?;
    let mut report = Report::begin("master", Machine::here(), echo(&settings));
    report
        .notes
        .push("closed loop: each thread waits for its call".to_owned());
    let outcome = measure(&settings, &stop, &mut report);
    report.end(&outcome);
    let format = load_flags::format(&settings);
    output(&report.print(format, BandwidthUnit::default()))?;
    outcome
}

fn echo(settings: &Settings) -> BTreeMap<String, String> {
    let number = |name| settings.integer::<u64>(name).to_string();
    load_flags::echo([
        ("keys", number("keys")),
        ("shards", number("shards")),
        (
            "duration",
            load_flags::duration_word(&load_flags::span(settings)),
        ),
        ("iterations", number("iterations")),
        ("master", settings.text("master").to_owned()),
    ])
}

fn measure(settings: &Settings, stop: &Stop, report: &mut Report) -> Result<(), BenchError> {
    let names: Vec<String> = (0..settings.integer("keys")).map(key).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(address) = settings.optional_text("master") {
        report
            .notes
            .push("a master in use is only asked for keys that do not exist".to_owned());
        report.loopback = own_host::is_this_machine(address);
        return row(
            settings,
            address,
            &keys,
            ("absent", Ask::Absent),
            stop,
            report,
        );
    }
    report.loopback = true;
    let master = start(settings.integer("shards"))?;
    let address = master.address().to_string();
    let owner = client(&address, 1);
    // Twice: what is put and removed in the last row lies beside what is stored.
    mount(&owner, keys.len() * 2)?;
    store_keys(&owner, &keys)?;
    for what in [
        ("exist", Ask::Exist),
        ("locate", Ask::Locate),
        ("put+remove", Ask::Put),
    ] {
        row(settings, &address, &keys, what, stop, report)?;
    }
    Ok(())
}

/// A master of our own: this program, in a process of its own.
fn start(shards: u64) -> Result<Process, BenchError> {
    let program = std::env::current_exe()?;
    Process::start(&program.to_string_lossy(), None, |port| {
        master_arguments(port, shards)
    })
}

/// Words that start a master on loopback whose clients never expire during a run.
#[must_use]
pub fn master_arguments(port: u16, shards: u64) -> Vec<String> {
    let http = std::net::TcpListener::bind(("127.0.0.1", 0));
    let http = http
        .and_then(|listener| listener.local_addr())
        .map_or(0, |address| address.port());
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

fn row(
    settings: &Settings,
    address: &str,
    keys: &[&str],
    (operation, ask): (&str, Ask),
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let (threads, batch): (u64, u64) = (settings.integer("threads"), settings.integer("batch"));
    let asker = |thread: u64| {
        // Only the owner of the segment puts.
        let number = if ask == Ask::Put {
            1
        } else {
            100 + u128::from(thread)
        };
        let client = client(address, number);
        Asker::new(client, keys, batch as usize, thread as usize, ask)
    };
    let mut askers: Vec<Asker<'_>> = (0..threads).map(asker).collect();
    let measured = drive(&mut askers, &load_flags::span(settings), stop)?;
    let cell = Cell {
        operation,
        bytes: 0,
        depth: batch,
        threads,
        unit: RateUnit::KeysPerSecond,
    };
    let row = Row::total(&cell, &measured);
    report.figures.push(Figure {
        name: operation.to_owned(),
        value: row.rate.average,
        unit: FigureUnit::KeysPerSecond,
    });
    report.rows.push(row);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        assert_eq!(MASTER.check(), Vec::<String>::new());
    }

    #[test]
    fn a_master_that_does_not_answer_ends_the_run_with_its_address() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let words = [format!("--master={address}"), "--iterations=1".to_owned()];
        let settings = match MASTER.load(&words, &Environment::of(&[])).unwrap() {
            Outcome::Run(settings) => settings,
            Outcome::Print(text) => panic!("{text}"),
        };
        let mut report = Report::begin("master", crate::facts::samples::machine(), BTreeMap::new());
        let error = measure(&settings, &Stop::default(), &mut report).unwrap_err();
        assert!(error.to_string().contains(&address), "{error}");
        assert!(report.rows.is_empty());
    }
}
