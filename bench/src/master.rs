//! A real master process on one core: existence checks per second against memcached's multi-get of the same keys, and
//! memory per key.
//! Invariant: both servers hold the same keys, have the same core to themselves, and are asked in turn by as many
//! threads on the other cores; every key asked for must be found.

use std::thread;
use std::time::{Duration, Instant};

use perigee_rpc::{ClientOptions, MasterClient, Placement, SegmentOffer};
use perigee_schemas::{Identity, Status};

use crate::error::BenchError;
use crate::machine::pin_to_cpu;
use crate::memcached::{Memcached, MultiGet};
use crate::program::Program;
use crate::report::{Cell, Figure, Goal, Report};
use crate::sample::{Places, Spread};

const KEY_BYTES: usize = 40;
const PAYLOAD_BYTES: u64 = 4000;
const SEGMENT_BYTES_PER_KEY: u64 = 8192;
const PUT_BATCH: usize = 256;
/// Different batches each thread asks for in turn.
const BATCHES: usize = 512;
const SERVER_CPU: usize = 1;
const CLIENT_CPU: usize = 0;
/// The resolution of CPU times.
const CPU_SECONDS_MIN: f64 = 0.01;

/// Options of `master`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The perigee program.
    #[arg(long, default_value = "target/release/perigee")]
    program: String,
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
    store_keys(&master, &keys)?;
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
        figures: [
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

/// A key of [`KEY_BYTES`] bytes.
fn key(number: usize) -> String {
    format!("model/block-{number:0width$}-k", width = KEY_BYTES - 14)
}

fn server_cpu() -> Option<usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores > SERVER_CPU).then_some(SERVER_CPU)
}

fn start_master(options: &Options) -> Result<Program, BenchError> {
    Program::start(&options.program, server_cpu(), |port| {
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
            "--rpc_shards=1".to_owned(),
            "--client_ttl=3600".to_owned(),
        ]
    })
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

fn client(master: &Program, number: u128) -> MasterClient {
    MasterClient::new(ClientOptions::new(
        &master.address().to_string(),
        Identity(number),
    ))
}

/// Stores keys whose bytes nobody will ever ask for.
fn store_keys(master: &Program, keys: &[&str]) -> Result<(), BenchError> {
    let client = client(master, 1);
    let segment = SegmentOffer {
        id: Identity(2),
        bytes: keys.len() as u64 * SEGMENT_BYTES_PER_KEY,
        base: 0,
        name: "127.0.0.1:1".to_owned(),
        endpoint: "127.0.0.1:1".to_owned(),
        host_id: "bench".to_owned(),
        rendezvous: String::new(),
        protocol: "tcp".to_owned(),
    };
    let mounted = client.mount(&[segment], false)?;
    expect("mount", "the segment", &mounted)?;
    let placement = Placement {
        replica_num: 1,
        soft_pin_action: 0,
        soft_pin_ttl_ms: None,
        with_soft_pin: false,
        with_hard_pin: false,
        prefer_alloc_in_same_node: false,
        data_type: 0,
        preferred_segments: &[],
        excluded: &[],
        host_id: "bench",
        host_name: "bench",
    };
    for chunk in keys.chunks(PUT_BATCH) {
        let sizes = vec![PAYLOAD_BYTES; chunk.len()];
        let started = client.put_start(chunk, &sizes, &[], &placement, false)?;
        expect("put start", chunk[0], &started.status)?;
        let generations: Vec<u64> = started.locations.iter().map(|at| at.generation).collect();
        let ended = client.put_end(chunk, &generations, &vec![1; chunk.len()])?;
        expect("put end", chunk[0], &ended)?;
    }
    Ok(())
}

fn expect(call: &'static str, key: &str, statuses: &[Status]) -> Result<(), BenchError> {
    match statuses.iter().find(|status| **status != Status::Ok) {
        None => Ok(()),
        Some(status) => Err(BenchError::Outcome {
            call,
            key: key.to_owned(),
            status: *status,
        }),
    }
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
    for _ in 0..options.rounds.max(1) {
        measure(
            options,
            master,
            &mut ours,
            keys,
            batch,
            |batches, number| {
                let client = client(master, 100 + number as u128);
                Ok(move |at: usize| {
                    let found = client.exist(&batches[at], false)?;
                    expect_found(&found, batches[at][0])
                })
            },
        )?;
        measure(
            options,
            memcached,
            &mut theirs,
            keys,
            batch,
            |batches, _| {
                let mut connection = Memcached::connect(memcached.address())?;
                let gets: Vec<MultiGet> =
                    batches.iter().map(|batch| MultiGet::new(batch)).collect();
                Ok(move |at: usize| connection.get(&gets[at]))
            },
        )?;
    }
    Ok((ours, theirs))
}

fn expect_found(found: &[i32], key: &str) -> Result<(), BenchError> {
    if found.iter().all(|code| *code == 1) {
        return Ok(());
    }
    Err(BenchError::Outcome {
        call: "exist",
        key: key.to_owned(),
        status: Status::ObjectNotFound,
    })
}

/// Lets threads ask one server for a while; `connect` gives each thread its call.
fn measure<'k, C: FnMut(usize) -> Result<(), BenchError>>(
    options: &Options,
    server: &Program,
    rates: &mut Rates,
    keys: &'k [&'k str],
    batch: usize,
    connect: impl Fn(Vec<Vec<&'k str>>, usize) -> Result<C, BenchError> + Sync,
) -> Result<(), BenchError> {
    let time = Duration::from_secs_f64(options.seconds.clamp(0.01, 600.0));
    let work = |number: usize| -> Result<(usize, f64), BenchError> {
        let mut call = connect(batches(keys, batch, number), number)?;
        let (start, mut calls) = (Instant::now(), 0);
        while start.elapsed() < time {
            call(calls % BATCHES)?;
            calls += 1;
        }
        Ok((calls * batch, start.elapsed().as_secs_f64()))
    };
    let cpu = server.cpu_seconds()?;
    let asked: Result<Vec<(usize, f64)>, BenchError> = thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads.max(1))
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        let results = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| {
                Err(BenchError::program("a thread", "it ended before its time"))
            })
        });
        results.collect()
    });
    let asked = asked?;
    let total: usize = asked.iter().map(|(keys, _)| keys).sum();
    rates.per_second.push(
        asked
            .iter()
            .map(|(keys, seconds)| *keys as f64 / seconds)
            .sum(),
    );
    let cpu_seconds = server.cpu_seconds()? - cpu;
    rates
        .per_cpu_second
        .push(total as f64 / cpu_seconds.max(CPU_SECONDS_MIN));
    Ok(())
}

/// Batches of keys that lie far apart in the server's memory, as in real use.
fn batches<'k>(keys: &'k [&'k str], batch: usize, number: usize) -> Vec<Vec<&'k str>> {
    let mut places = Places::new(number as u64 + 1);
    let one = |places: &mut Places| {
        (0..batch)
            .map(|_| keys[places.below(keys.len() as u64) as usize])
            .collect()
    };
    (0..BATCHES).map(|_| one(&mut places)).collect()
}
