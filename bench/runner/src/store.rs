//! `perigee bench store`: put, get and exist through the store's client.
//! Invariant: only keys of this run are ever removed, so a cluster in use can be measured.

use std::time::Duration;

use perigee_flags::{Environment, Outcome};
use perigee_store::Store;

use crate::cluster::{open_store, serve};
use crate::command::Output;
use crate::companion::Companion;
use crate::drive::drive;
use crate::error::BenchError;
use crate::facts::Machine;
use crate::limits::STORED_CALLS_MAX;
use crate::memory_pair::MemoryPair;
use crate::report::{Cell, Figure, FigureUnit, RateUnit, Report, Row, bytes_text};
use crate::stop::Stop;
use crate::workload::Workload;
use settings::{EXAMPLES, STORE, StoreSettings};
use worker::StoreWorker;

mod settings;
mod worker;

/// Memory of a cluster of our own, in pools: blocks that were removed but read a moment ago still hold their space.
pub(crate) const SEGMENT_POOLS: u64 = 3;
/// What a cluster of our own prints before its address.
pub(crate) const READY: &str = "Cluster ready: ";

/// Runs the tool.
pub(crate) fn run(
    arguments: &[String],
    environment: &Environment,
    output: Output<'_>,
) -> Result<(), BenchError> {
    let settings = match STORE.load(arguments, environment)? {
        Outcome::Print(text) => return Ok(output(&crate::help::with_examples(&text, EXAMPLES))?),
        Outcome::Run(settings) => settings,
    };
    let settings = StoreSettings::of(&settings)?;
    let stop = Stop::on_signals()?;
    if settings.serve {
        let bytes = settings.segment_bytes();
        return serve(bytes, settings.route, None, &stop, |address| {
            output(&format!("{READY}{address}\n"))
        });
    }
    let mut report = Report::begin("store", Machine::here(), settings.echo());
    report
        .notes
        .push("closed loop: each thread waits for its call".to_owned());
    report.notes.push(
        "latencies are of whole calls; the bandwidth of put includes removing old blocks"
            .to_owned(),
    );
    let outcome = measure(&settings, &stop, &mut report);
    report.end(&outcome);
    output(&report.print(settings.format, settings.unit))?;
    outcome
}

/// The address of a cluster: the given one, or that of a companion.
pub(crate) fn cluster(
    master: &str,
    pool_bytes: u64,
    route: &str,
) -> Result<(String, Option<Companion>), BenchError> {
    if !master.is_empty() {
        return Ok((master.to_owned(), None));
    }
    let words = [
        "bench".to_owned(),
        "store".to_owned(),
        "--serve".to_owned(),
        format!("--pool={pool_bytes}"),
        format!("--route={route}"),
    ];
    let companion = Companion::start(&words, READY)?;
    Ok((companion.ready().to_owned(), Some(companion)))
}

fn measure(settings: &StoreSettings, stop: &Stop, report: &mut Report) -> Result<(), BenchError> {
    let (master, companion) =
        cluster(&settings.master, settings.pool_bytes, settings.route_word())?;
    report.loopback = companion.is_some();
    let client = open_store(&master, 0, settings.route, None)?;
    let share = settings.pool_bytes / settings.threads;
    let pairs = (0..settings.threads)
        .map(|_| MemoryPair::new(share as usize))
        .collect::<Result<Vec<_>, _>>()?;
    let name = format!(
        "perigee-bench-{:016x}",
        getrandom::u64().map_err(std::io::Error::other)?
    );
    for bytes in &settings.sizes {
        sizes_rows(settings, &client, &pairs, &name, *bytes, stop, report)?;
    }
    client.close();
    Ok(())
}

fn sizes_rows(
    settings: &StoreSettings,
    client: &Store,
    pairs: &[MemoryPair],
    name: &str,
    bytes: u64,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    // Small blocks would take longer to store than to measure.
    let blocks = STORED_CALLS_MAX * settings.batch as usize;
    let workload = |(thread, pair)| {
        let prefix = format!("{name}-{thread}");
        let named = (prefix.as_str(), settings.lease);
        Workload::named(client, pair, bytes as usize, settings.batch as usize, named)
            .with_at_most(blocks)
    };
    let mut workloads: Vec<Workload<'_>> = pairs.iter().enumerate().map(workload).collect();
    for operation in &settings.operations {
        let worker = |workload| StoreWorker::new(workload, operation, bytes, settings);
        let mut workers = workloads
            .iter_mut()
            .map(worker)
            .collect::<Result<Vec<_>, _>>()?;
        let measured = drive(&mut workers, &settings.span, stop)?;
        let counts_keys = *operation == "exist";
        let cell = Cell {
            operation,
            bytes: if counts_keys { 0 } else { bytes },
            depth: settings.batch,
            threads: settings.threads,
            unit: if counts_keys {
                RateUnit::KeysPerSecond
            } else {
                RateUnit::BytesPerSecond
            },
        };
        let row = Row::total(&cell, &measured);
        report.figures.push(figure(&row));
        report.rows.push(row);
    }
    workloads.iter_mut().try_for_each(Workload::clear)
}

fn figure(row: &Row) -> Figure {
    let keys = row.rate.unit == RateUnit::KeysPerSecond;
    let (what, unit) = if keys {
        (format!("{} keys", row.depth), FigureUnit::KeysPerSecond)
    } else {
        (bytes_text(row.bytes), FigureUnit::BytesPerSecond)
    };
    Figure {
        name: format!("{} {what}", row.operation),
        value: row.rate.average,
        unit,
    }
}

/// Leases of a cluster that is not ours: Mooncake's default of five seconds, and some.
pub(crate) const FOREIGN_LEASE: Duration = Duration::from_secs(6);
