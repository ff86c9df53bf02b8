//! `perigee bench store`: put, get and exist through the store's client, beside what this machine
//! does without it.
//! Invariant: only keys of this run are ever removed, so a cluster in use can be measured.

use perigee_flags::Settings;
use perigee_schemas::{Route, Status};
use perigee_store::Store;

use crate::baseline::copy::{Towards, Work, baseline};
use crate::baseline::pump::{Pump, Pumping};
use crate::baseline::rounds::{Baseline, Rounds, Taken};
use crate::ends::cluster::{open_store, serve};
use crate::ends::memory_pair::MemoryPair;
use crate::ends::own_host;
use crate::ends::process::Companion;
use crate::error::BenchError;
use crate::limits::STORED_CALLS_MAX;
use crate::load::drive::drive;
use crate::load::removal::{is_unheard, left_behind};
use crate::load::workload::Workload;
use crate::report::{Cell, Figure, Goal, RateUnit, Report, Row, bytes_text};
use crate::run::{Run, Tool};
use crate::stop::Stop;
use settings::{EXAMPLES, PROGRAM, StoreSettings};
use worker::StoreWorker;

mod settings;
mod tier;
mod worker;

/// What a cluster of our own prints before its address.
pub(crate) const READY: &str = "Cluster ready: ";
/// Smallest blocks for which a copy is what a call should cost.
const LARGE_BYTES: u64 = 1 << 20;

pub(crate) const TOOL: Tool = Tool { name: "store", program: PROGRAM, examples: EXAMPLES, run };

fn run(run: Run<'_>) -> Result<(), BenchError> {
    let settings = StoreSettings::of(&run.settings)?;
    if settings.serve {
        return run.serve(|stop, output| {
            let ready = |address: &str| output(&format!("{READY}{address}\n"));
            if settings.has_disk() {
                return tier::serve(&settings, stop, ready);
            }
            serve(settings.segment_bytes(), settings.route, stop, ready)
        });
    }
    run.measure(|given, stop, report| {
        notes(&settings, given, report);
        measure(&settings, stop, report)?;
        if settings.has_disk() {
            tier::rows(&settings, stop, report)?;
        }
        Ok(())
    })
}

fn notes(settings: &StoreSettings, given: &Settings, report: &mut Report) {
    let mut note = |text: &str| report.notes.push(text.to_owned());
    match given.integer::<u64>("rate") {
        0 => note("closed loop: each thread waits for its call"),
        _ => note("open loop: calls begin on time, latencies count from the time they were due"),
    }
    if settings.quiet.is_some() {
        note(
            "bandwidths are of the time in calls; baselines were taken before and after each round",
        );
    } else {
        note("latencies are of whole calls; the bandwidth of put includes removing old blocks");
    }
    if settings.load.verify {
        note(
            "every block of a call was read back and compared; the bandwidth of put and get includes that, \
             their latencies do not",
        );
    }
}

/// The address of a cluster: the given one, or that of a companion.
pub(crate) fn cluster(
    master: &str,
    pool_bytes: u64,
    route: &str,
    cpu: Option<usize>,
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
    let companion = Companion::start(&words, READY, cpu)?;
    Ok((companion.ready.clone(), Some(companion)))
}

fn measure(settings: &StoreSettings, stop: &Stop, report: &mut Report) -> Result<(), BenchError> {
    let (pool, route) = (settings.pool_bytes, settings.route_word());
    let (master, companion) = cluster(&settings.master, pool, route, settings.far_cpu())?;
    settings.pin_near()?;
    report.loopback = companion.is_some();
    let client = open_store(&master, 0, settings.route)?;
    let name = format!("perigee-bench-{:016x}", getrandom::u64().map_err(std::io::Error::other)?);
    let other = companion.as_ref().map(|companion| companion.process.pid());
    let pids: Vec<u32> = [Some(std::process::id()), other].into_iter().flatten().collect();
    let cluster = Cluster { client: &client, master: &master, name: &name, pids: &pids };
    let outcome = against(&cluster, settings, stop, report);
    client.close();
    outcome
}

/// What is measured.
struct Cluster<'a> {
    client: &'a Store,
    master: &'a str,
    /// What the keys of the run begin with.
    name: &'a str,
    /// Our own processes.
    pids: &'a [u32],
}

/// Takes all rows.
fn against(
    cluster: &Cluster<'_>,
    settings: &StoreSettings,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let share = settings.pool_bytes / settings.load.threads;
    let pairs = (0..settings.load.threads)
        .map(|_| MemoryPair::new(share as usize))
        .collect::<Result<Vec<_>, _>>()?;
    // Not the memories of the load: what a baseline writes would be taken for wrong bytes.
    let yard = settings.quiet.map(|_| MemoryPair::new(share as usize));
    let yard = yard.transpose()?;
    let load = Load {
        settings,
        cluster,
        pairs: &pairs,
        yard: yard.as_ref(),
        has_near_master: own_host::is_this_machine(cluster.master),
        stop,
    };
    let outcome = load.sizes(report);
    report.figures.extend(figures(&report.rows, settings));
    outcome.map_err(|error| advised(error, settings))
}

/// Says what to do about a cluster that does not hold what this run stores.
fn advised(error: BenchError, settings: &StoreSettings) -> BenchError {
    match error {
        BenchError::Outcome {
            call,
            key,
            status: status @ (Status::ObjectNotFound | Status::NoAvailableHandle),
        } if !settings.master.is_empty() => {
            BenchError::NoRoom { call, key, status, pool: bytes_text(settings.pool_bytes) }
        }
        error => error,
    }
}

/// What is run against a cluster, and with what.
struct Load<'a> {
    settings: &'a StoreSettings,
    cluster: &'a Cluster<'a>,
    pairs: &'a [MemoryPair],
    /// The memories of baselines.
    yard: Option<&'a MemoryPair>,
    has_near_master: bool,
    stop: &'a Stop,
}

/// Removes what all threads have stored, unless no server answers; the first refusal.
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

impl<'a> Load<'a> {
    /// Rows of all sizes. Whatever is stored is removed again, however they end.
    fn sizes(&self, report: &mut Report) -> Result<(), BenchError> {
        let sizes = &self.settings.load.sizes;
        for (place, bytes) in sizes.iter().enumerate() {
            let mut workloads = self.workloads(*bytes);
            let taken = self.rows(&mut workloads, *bytes, report);
            let removed = remove_all(&mut workloads);
            if let Err(error) = &removed {
                report.warnings.push(left_behind(error));
            }
            taken.and(removed)?;
            if place + 1 < sizes.len() {
                // The next blocks need the space of these.
                let mut read = workloads.iter_mut();
                read.try_for_each(|workload| workload.settle(self.stop))?;
            }
        }
        Ok(())
    }

    /// One workload per thread.
    fn workloads(&self, bytes: u64) -> Vec<Workload<'a>> {
        let (batch, lease) = (self.settings.load.depth as usize, self.settings.lease);
        let workload = |(thread, pair)| {
            let prefix = format!("{}-{thread}", self.cluster.name);
            let named = (prefix.as_str(), lease);
            // Small blocks would take longer to store than to measure.
            Workload::named(self.cluster.client, pair, bytes as usize, batch, named)
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
        if self.settings.quiet.is_some() {
            self.touch(workloads)?;
        }
        for operation in &self.settings.load.operations {
            if *operation != "put" {
                let mut all = workloads.iter_mut();
                all.try_for_each(|workload| workload.fill(self.stop))?;
            }
            let taken = self.take(workloads, operation, bytes)?;
            let mut all = workloads.iter();
            report.loopback |= self.has_near_master && all.all(Workload::is_near);
            let row = Row::of(&cell(operation, bytes, self.settings), &taken);
            report.warn_of_dropped(&row, taken.dropped);
            report.warn_of_overdue(&row, taken.load.overdue);
            report.figures.push(Figure::rate(&row));
            report.rows.push(row);
        }
        Ok(())
    }

    /// The first pass over a memory fills page tables on both sides, which no later one pays for.
    fn touch(&self, workloads: &mut [Workload<'_>]) -> Result<(), BenchError> {
        for workload in workloads {
            workload.fill(self.stop)?;
            workload.read_all()?;
            workload.remove()?;
            workload.settle(self.stop)?;
        }
        Ok(())
    }

    fn take(
        &self,
        workloads: &mut [Workload<'_>],
        operation: &'static str,
        bytes: u64,
    ) -> Result<Taken, BenchError> {
        let load = &self.settings.load;
        let worker = |workload| StoreWorker::new(workload, operation, bytes, load);
        let mut workers: Vec<_> = workloads.iter_mut().map(worker).collect();
        let held = self.settings.quiet.zip(self.yard);
        let Some((quiet, yard)) = held.filter(|_| operation != "exist") else {
            return Ok(drive(&mut workers, &load.span, self.stop)?.into());
        };
        let mut rounds = Rounds {
            quiet,
            pids: self.cluster.pids,
            baselines: self.baselines(yard, operation, bytes as usize),
        };
        let taken = rounds.take(&load.span, &mut |span| {
            Ok(drive(&mut workers, span, self.stop)?.in_calls(load.threads))
        })?;
        drop(workers);
        workloads.iter_mut().try_for_each(Workload::check_last)?;
        Ok(taken)
    }

    /// What this machine does with blocks of this size without a store.
    fn baselines(
        &self,
        pair: &'a MemoryPair,
        operation: &str,
        bytes: usize,
    ) -> Vec<Box<dyn Baseline + 'a>> {
        let stop = self.stop;
        let towards = match operation {
            "get" => Towards::Buffer,
            _ => Towards::Segment,
        };
        let copy = |work| -> Box<dyn Baseline + 'a> {
            Box::new(baseline(pair, work, towards, bytes, stop))
        };
        if self.settings.route == Route::SharedMemory {
            return vec![copy(Work::Streaming)];
        }
        let pump = Pump {
            gets: operation == "get",
            bytes,
            depth: self.settings.load.depth as usize,
            cpu: self.settings.far_cpu(),
        };
        vec![copy(Work::Memcpy), Box::new(Pumping { pump, pair })]
    }
}

fn cell<'a>(operation: &'a str, bytes: u64, settings: &StoreSettings) -> Cell<'a> {
    let (bytes, unit) = match operation {
        "exist" => (0, RateUnit::Keys),
        _ => (bytes, RateUnit::Bytes),
    };
    Cell { operation, bytes, depth: settings.load.depth, threads: settings.load.threads, unit }
}

/// The worst ratio of each operation to each baseline, over the sizes for which it has a goal.
fn figures(rows: &[Row], settings: &StoreSettings) -> Vec<Figure> {
    let (name, goal, least) = match settings.route {
        Route::Tcp => ("cold memcpy", Goal::AtLeast(0.85), LARGE_BYTES),
        _ => ("streaming copy", Goal::AtLeast(0.8), 0),
    };
    let worst = |operation: &'static str| {
        let rows = rows.iter().filter(|row| row.operation == operation);
        let held = Figure::worst(rows.filter(|row| row.bytes >= least), operation, name)?;
        Some(held.with_goal(goal))
    };
    let pumped = |operation: &'static str| {
        let rows = rows.iter().filter(|row| row.operation == operation);
        Figure::worst(rows, operation, "bare pump")
    };
    let operations = ["put", "get"];
    let held = operations.into_iter().filter_map(worst);
    held.chain(operations.into_iter().filter_map(pumped)).collect()
}

#[cfg(test)]
mod tests;
