//! A real master process on one core: existence checks per second against memcached's multi-get of the same keys, and
//! memory per key.
//! Invariant: both servers hold the same keys, have the same core to themselves, and are asked in turn by as many
//! threads on the other cores; every key asked for must be found.

use std::path::Path;
use std::thread;
use std::time::Duration;

use perigee_runner::BenchError;
use perigee_runner::drive::{Span, Worker, drive};
use perigee_runner::machine::pin_to_cpu;
use perigee_runner::master_load::{
    Ask, Asker, KEY_BYTES, PUT_BATCH, batches, client, key, mount, store_keys,
};
use perigee_runner::program::Program;
use perigee_runner::sample::Spread;
use perigee_runner::stop::Stop;

use crate::memcached::{Memcached, MemcachedAsker};
use crate::report::{Cell, Figure, Goal, Report};

const SERVER_CPU: usize = 1;
const CLIENT_CPU: usize = 0;
/// The resolution of CPU times.
const CPU_SECONDS_MIN: f64 = 0.01;

/// Options of `master`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The perigee program; without it the one beside this program.
    #[arg(long)]
    program: Option<String>,
    /// The memcached program.
    #[arg(long, default_value = "memcached")]
    memcached: String,
    /// Keys to store.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// Keys per call.
    #[arg(long, value_delimiter = ',', default_value = "128,256")]
    batches: Vec<usize>,
    /// Threads that ask.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Rounds; each asks both servers.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds per server and round.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

/// Measures.
pub(crate) fn run(options: &Options) -> Result<Report, BenchError> {
    let names: Vec<String> = (0..options.keys.max(PUT_BATCH)).map(key).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let master = start_master(options)?;
    let memcached = start_memcached(options)?;
    if thread::available_parallelism().map_or(1, usize::from) > 1 {
        pin_to_cpu(CLIENT_CPU)?;
    }
    let before = master.resident_bytes()?;
    let owner = client(&master.address().to_string(), 1);
    mount(&owner, keys.len())?;
    store_keys(&owner, &keys)?;
    let bytes_per_key = (master.resident_bytes()? as f64 - before as f64) / keys.len() as f64;
    let mut connection = Memcached::connect(memcached.address())?;
    for chunk in keys.chunks(PUT_BATCH) {
        connection.store(chunk)?;
    }
    let mut rows = Vec::new();
    let mut worst = f64::MAX;
    for batch in &options.batches {
        let batch = (*batch).clamp(1, keys.len());
        let (ours, theirs) = rounds(options, &master, &memcached, &keys, batch)?;
        worst = worst.min(ours.rate() / theirs.rate());
        let ratios = [
            ours.rate() / theirs.rate(),
            ours.per_cpu() / theirs.per_cpu(),
        ];
        rows.push(ours.row("exist", batch, Some(ratios)));
        rows.push(theirs.row("memcached get", batch, None));
    }
    Ok(report(keys.len(), bytes_per_key, worst, rows))
}

fn report(keys: usize, bytes_per_key: f64, worst: f64, rows: Vec<Vec<Cell>>) -> Report {
    Report {
        figures: vec![
            Figure {
                name: "existence checks per second on one core, worst batch".to_owned(),
                value: worst,
                unit: "of memcached's multi-get",
                goal: Some(Goal::AtLeast(2.0)),
            },
            Figure {
                name: format!("memory of the master per key, {keys} keys of {KEY_BYTES} bytes"),
                value: bytes_per_key,
                unit: "bytes",
                goal: Some(Goal::AtMost(300.0)),
            },
        ],
        columns: &[
            "call",
            "keys",
            "M keys/s",
            "low",
            "high",
            "M keys per CPU s",
            "ratio",
            "ratio per CPU s",
        ],
        rows,
        notes: vec!["each server has one core, the threads that ask have another".to_owned()],
    }
}

fn server_cpu() -> Option<usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores > SERVER_CPU).then_some(SERVER_CPU)
}

fn start_master(options: &Options) -> Result<Program, BenchError> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => beside(&std::env::current_exe()?)?,
    };
    Program::start(&program, server_cpu(), |port| {
        perigee_runner::master_arguments(port, 1)
    })
}

/// The perigee program in the folder of this one.
fn beside(own: &Path) -> Result<String, BenchError> {
    let program = own.with_file_name("perigee");
    let shown = program.display().to_string();
    if program.is_file() {
        return Ok(shown);
    }
    let advice = "is not built: run `cargo build --release --package perigee-cli`, or name one with --program";
    Err(BenchError::program(&shown, advice))
}

fn start_memcached(options: &Options) -> Result<Program, BenchError> {
    let megabytes = 64 + options.keys / 4000;
    let started = Program::start(&options.memcached, server_cpu(), |port| {
        let words = ["-t", "1", "-l", "127.0.0.1", "-U", "0", "-u", "root", "-p"];
        let mut arguments: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        arguments.extend([port.to_string(), "-m".to_owned(), megabytes.to_string()]);
        arguments
    });
    started.map_err(|error| {
        BenchError::program(
            &options.memcached,
            format!("{error}; install the Debian package memcached"),
        )
    })
}

/// Keys per second of rounds, and keys per CPU second of the server.
struct Rates {
    per_second: Vec<f64>,
    per_cpu_second: Vec<f64>,
}

impl Rates {
    fn rate(&self) -> f64 {
        Spread::of(&self.per_second).median
    }

    fn per_cpu(&self) -> f64 {
        Spread::of(&self.per_cpu_second).median
    }

    fn row(&self, call: &str, batch: usize, ratios: Option<[f64; 2]>) -> Vec<Cell> {
        let spread = Spread::of(&self.per_second);
        let ratio = |at: usize| {
            ratios.map_or(Cell::Text(String::new()), |ratios| {
                Cell::Number(ratios[at], 2)
            })
        };
        vec![
            Cell::Text(call.to_owned()),
            Cell::Number(batch as f64, 0),
            Cell::Number(spread.median / 1e6, 2),
            Cell::Number(spread.low / 1e6, 2),
            Cell::Number(spread.high / 1e6, 2),
            Cell::Number(self.per_cpu() / 1e6, 2),
            ratio(0),
            ratio(1),
        ]
    }
}

/// Asks both servers in turn.
fn rounds(
    options: &Options,
    master: &Program,
    memcached: &Program,
    keys: &[&str],
    batch: usize,
) -> Result<(Rates, Rates), BenchError> {
    let rates = || Rates {
        per_second: Vec::new(),
        per_cpu_second: Vec::new(),
    };
    let (mut ours, mut theirs) = (rates(), rates());
    let threads = 0..options.threads.max(1);
    let address = master.address().to_string();
    for _ in 0..options.rounds.max(1) {
        let asker = |thread: usize| {
            let client = client(&address, 100 + thread as u128);
            Asker::new(client, keys, batch, thread, Ask::Exist)
        };
        let mut askers: Vec<Asker<'_>> = threads.clone().map(asker).collect();
        measure(options, master, &mut ours, &mut askers)?;
        let asker = |thread: usize| {
            let connection = Memcached::connect(memcached.address())?;
            Ok(MemcachedAsker::new(
                connection,
                &batches(keys, batch, thread),
            ))
        };
        let mut askers = threads
            .clone()
            .map(asker)
            .collect::<Result<Vec<_>, BenchError>>()?;
        measure(options, memcached, &mut theirs, &mut askers)?;
    }
    Ok((ours, theirs))
}

/// Lets threads ask one server for a while.
fn measure<W: Worker>(
    options: &Options,
    server: &Program,
    rates: &mut Rates,
    askers: &mut [W],
) -> Result<(), BenchError> {
    let span = Span {
        // The CPU time of the server covers all calls, so all calls must count.
        warm_up: Duration::ZERO,
        duration: Duration::from_secs_f64(options.seconds.clamp(0.01, 600.0)),
        iterations: 0,
    };
    let cpu = server.cpu_seconds()?;
    let measured = drive(askers, &span, &Stop::default())?;
    let cpu_seconds = server.cpu_seconds()? - cpu;
    let keys = measured.units as f64;
    rates.per_second.push(keys / measured.seconds);
    rates
        .per_cpu_second
        .push(keys / cpu_seconds.max(CPU_SECONDS_MIN));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_looked_for_beside_this_one_whatever_the_working_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("perigee-bench");
        let error = beside(&own)
            .expect_err("nothing is built there")
            .to_string();
        assert!(error.contains("--package perigee-cli"), "{error}");
        let program = folder.path().join("perigee");
        std::fs::write(&program, "").expect("a file");
        let found = beside(&own).expect("it lies there");
        assert_eq!(Path::new(&found), program);
    }
}
