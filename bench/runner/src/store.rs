//! `perigee bench store`: put, get and exist through the store's client.
//! Invariant: only keys of this run are ever removed, so a cluster in use can be measured.

use std::time::Duration;

use perigee_flags::{Environment, Outcome};
use perigee_schemas::Status;
use perigee_store::Store;

use crate::cluster::{open_store, serve};
use crate::command::Output;
use crate::companion::Companion;
use crate::drive::drive;
use crate::error::BenchError;
use crate::facts::Machine;
use crate::limits::STORED_CALLS_MAX;
use crate::memory_pair::MemoryPair;
use crate::own_host;
use crate::removal::{is_unheard, left_behind};
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
    if settings.verify {
        report.notes.push(
            "every block of a call was read back and compared; the bandwidth of put and get includes that, \
             their latencies do not"
                .to_owned(),
        );
    }
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
    let name = format!(
        "perigee-bench-{:016x}",
        getrandom::u64().map_err(std::io::Error::other)?
    );
    let outcome = against(&client, &master, &name, settings, stop, report);
    client.close();
    outcome
}

/// Takes all rows with blocks whose keys begin with `name`.
fn against(
    client: &Store,
    master: &str,
    name: &str,
    settings: &StoreSettings,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let share = settings.pool_bytes / settings.threads;
    let pairs = (0..settings.threads)
        .map(|_| MemoryPair::new(share as usize))
        .collect::<Result<Vec<_>, _>>()?;
    let load = Load {
        settings,
        client,
        pairs: &pairs,
        name,
        has_near_master: own_host::is_this_machine(master),
        stop,
    };
    let outcome = load.sizes(report);
    outcome.map_err(|error| advised(error, settings))
}

/// Says what to do about a cluster that does not hold what this run stores.
fn advised(error: BenchError, settings: &StoreSettings) -> BenchError {
    match error {
        BenchError::Outcome {
            call,
            key,
            status: status @ (Status::ObjectNotFound | Status::NoAvailableHandle),
        } if !settings.master.is_empty() => BenchError::NoRoom {
            call,
            key,
            status,
            pool: bytes_text(settings.pool_bytes),
        },
        error => error,
    }
}

/// What is run against a cluster, and with what.
struct Load<'a> {
    settings: &'a StoreSettings,
    client: &'a Store,
    pairs: &'a [MemoryPair],
    name: &'a str,
    has_near_master: bool,
    stop: &'a Stop,
}

/// Removes what all threads have stored, unless nobody answers; the first refusal.
fn remove_all(workloads: &mut [Workload<'_>]) -> Result<(), BenchError> {
    let mut removed = Ok(());
    for workload in workloads {
        let ended = workload.remove();
        let is_unheard = ended.as_ref().is_err_and(is_unheard);
        removed = removed.and(ended);
        if is_unheard {
            break;
        }
    }
    removed
}

impl Load<'_> {
    /// Rows of all sizes. Whatever is stored is removed again, however they end.
    fn sizes(&self, report: &mut Report) -> Result<(), BenchError> {
        for (place, bytes) in self.settings.sizes.iter().enumerate() {
            let mut workloads = self.workloads(*bytes);
            let taken = self.rows(&mut workloads, *bytes, report);
            let removed = remove_all(&mut workloads);
            if let Err(error) = &removed {
                report.warnings.push(left_behind(error));
            }
            taken.and(removed)?;
            if place + 1 < self.settings.sizes.len() {
                // The next blocks need the space of these.
                let mut read = workloads.iter_mut();
                read.try_for_each(|workload| workload.settle(self.stop))?;
            }
        }
        Ok(())
    }

    /// One workload per thread.
    fn workloads(&self, bytes: u64) -> Vec<Workload<'_>> {
        let (batch, lease) = (self.settings.batch as usize, self.settings.lease);
        let workload = |(thread, pair)| {
            let prefix = format!("{}-{thread}", self.name);
            let named = (prefix.as_str(), lease);
            // Small blocks would take longer to store than to measure.
            Workload::named(self.client, pair, bytes as usize, batch, named)
                .with_at_most(STORED_CALLS_MAX * batch)
        };
        self.pairs.iter().enumerate().map(workload).collect()
    }

    fn rows(
        &self,
        workloads: &mut [Workload<'_>],
        bytes: u64,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let settings = self.settings;
        for operation in &settings.operations {
            if *operation != "put" {
                let mut all = workloads.iter_mut();
                all.try_for_each(|workload| workload.fill_until(self.stop))?;
            }
            let worker = |workload| StoreWorker::new(workload, operation, bytes, settings);
            let mut workers: Vec<_> = workloads.iter_mut().map(worker).collect();
            let measured = drive(&mut workers, &settings.span, self.stop)?;
            report.loopback |= self.has_near_master && workloads.iter().all(Workload::is_near);
            let row = Row::total(&cell(operation, bytes, settings), &measured);
            report.figures.push(figure(&row));
            report.rows.push(row);
        }
        Ok(())
    }
}

fn cell<'a>(operation: &'a str, bytes: u64, settings: &StoreSettings) -> Cell<'a> {
    let (bytes, unit) = match operation {
        "exist" => (0, RateUnit::KeysPerSecond),
        _ => (bytes, RateUnit::BytesPerSecond),
    };
    Cell {
        operation,
        bytes,
        depth: settings.batch,
        threads: settings.threads,
        unit,
    }
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

#[cfg(test)]
mod tests;
