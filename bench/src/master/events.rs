//! What KV events cost puts: the same load on three masters in turn, without events, with events
//! that no consumer listens to, and with a subscriber that reads and discards them.
//! Invariant: a figure of a subscriber is of a run in which it has heard events.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use perigee_flags::Settings;
use perigee_schemas::Route;
use perigee_store::Store;

use super::load::{Ask, Asker, client, mount};
use super::subscriber::{EventSubscriber, HeardEvents};
use super::values::{VALUE_BYTES, ValueWorker};
use super::{CLIENT_CPU, master_words, server_cpu};
use crate::baseline::rounds::{Driven, Rounds, Taken};
use crate::cpu::{pin_to_cpu, thread_cpu_seconds};
use crate::ends::cluster::open_store;
use crate::ends::process::Server;
use crate::error::BenchError;
use crate::load::drive::{Worker, drive};
use crate::report::{Cell, Figure, FigureUnit, Goal, RateUnit, Report, Row};
use crate::settings;
use crate::stop::Stop;

/// The publisher's thread in a master.
const PUBLISHER: &str = "perigee-events";
/// Memory of a client that puts values.
const SEGMENT_BYTES: u64 = 128 << 20;
/// What the rate of puts may lose to events that no consumer listens to, and to a subscriber.
const UNHEARD_LEAST: f64 = 0.99;
const HEARD_LEAST: f64 = 0.95;

/// A master and, if it publishes, where.
struct Publishing {
    server: Server,
    events: Option<SocketAddr>,
}

impl Publishing {
    fn start(shards: u64, has_events: bool) -> Result<Self, BenchError> {
        let events = match has_events {
            true => Some(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?),
            false => None,
        };
        let cpu = server_cpu().filter(|_| shards == 1);
        let server = Server::start(None, cpu, |port| {
            let mut words = master_words(port, shards);
            if let Some(events) = events {
                words.push("--enable_kv_events".to_owned());
                words.push(format!("--kv_events_bind_endpoint=tcp://{events}"));
                words.push("--kv_events_backend_id=bench".to_owned());
            }
            words
        })?;
        Ok(Self { server, events })
    }

    fn address(&self) -> String {
        self.server.address.to_string()
    }
}

/// What is done, and how it is counted.
#[derive(Clone, Copy)]
struct LoadKind {
    /// What is done.
    load: &'static str,
    bytes: u64,
    unit: RateUnit,
}

const KEYS: LoadKind = LoadKind { load: "put+remove", bytes: 0, unit: RateUnit::Keys };
const VALUES: LoadKind = LoadKind { load: "values", bytes: VALUE_BYTES, unit: RateUnit::Bytes };
/// What each row is held against.
const BASELINE: &str = "no events";

/// Takes all rows.
pub(super) fn rows(
    settings: &Settings,
    keys: &[&str],
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let shards = settings.integer("shards");
    // A thread of its own: only what it starts is kept on one CPU.
    thread::scope(|scope| {
        let taken = scope.spawn(|| {
            if shards == 1 && server_cpu().is_some() {
                pin_to_cpu(CLIENT_CPU)?;
            }
            let masters =
                [false, true, true].map(|has_events| Publishing::start(shards, has_events));
            let [plain, unheard, heard] = masters;
            let held = EventCost {
                settings,
                stop,
                plain: plain?,
                unheard: unheard?,
                heard: heard?,
                threads: settings.integer("threads"),
                batch: settings.integer("batch"),
            };
            held.keys(keys, report)?;
            held.values(report)
        });
        taken.join().unwrap_or(Err(BenchError::LoadThread))
    })?;
    let note = "events: unheard has no subscriber, heard one that reads and discards; the subscriber \
                shares the CPU of those that ask";
    report.notes.push(note.to_owned());
    Ok(())
}

/// The masters, and how they are asked.
struct EventCost<'a> {
    settings: &'a Settings,
    stop: &'a Stop,
    plain: Publishing,
    unheard: Publishing,
    heard: Publishing,
    threads: u64,
    batch: u64,
}

impl EventCost<'_> {
    /// Keys without bytes behind them.
    fn keys(&self, keys: &[&str], report: &mut Report) -> Result<(), BenchError> {
        for master in [&self.plain, &self.unheard, &self.heard] {
            mount(&client(&master.address(), 1), keys.len())?;
        }
        let askers = |master: &Publishing| {
            let asker = |thread: u64| {
                let client = client(&master.address(), 1);
                Asker::new(client, keys, self.batch as usize, thread as usize, Ask::Put)
            };
            (0..self.threads).map(asker).collect::<Vec<_>>()
        };
        self.rows_of(KEYS, [&self.plain, &self.unheard, &self.heard].map(askers), report)
    }

    /// Values through a client of the store.
    fn values(&self, report: &mut Report) -> Result<(), BenchError> {
        let open =
            |master: &Publishing| open_store(&master.address(), SEGMENT_BYTES, Route::SharedMemory);
        let stores = [open(&self.plain)?, open(&self.unheard)?, open(&self.heard)?];
        let workers = stores.each_ref().map(|store| self.value_workers(store));
        let taken = self.rows_of(VALUES, workers, report);
        stores.iter().for_each(Store::close);
        taken
    }

    fn value_workers<'s>(&self, store: &'s Store) -> Vec<ValueWorker<'s>> {
        (0..self.threads).map(|thread| ValueWorker::new(store, thread, self.batch)).collect()
    }

    fn rows_of<W: Worker>(
        &self,
        kind: LoadKind,
        [mut plain, mut unheard, mut heard]: [Vec<W>; 3],
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let taken = self.take(&mut plain, &mut unheard)?;
        self.push(kind, "unheard", UNHEARD_LEAST, &taken, report);
        let subscriber = self.heard.events.map(EventSubscriber::connect).transpose()?;
        let Some(subscriber) = subscriber else {
            return Ok(());
        };
        let cpu = || thread_cpu_seconds(self.heard.server.process.pid(), PUBLISHER);
        let (begun, before) = (cpu()?, subscriber.heard());
        let taken = self.take(&mut plain, &mut heard)?;
        let (seconds, after) = (cpu()? - begun, subscriber.heard());
        self.push(kind, "heard", HEARD_LEAST, &taken, report);
        let cost = PublisherCost { before, after, seconds };
        report.figures.extend(cost.figures(kind)?);
        Ok(())
    }

    /// A load between two takes of the same without events.
    fn take<W: Worker>(&self, plain: &mut [W], load: &mut [W]) -> Result<Taken, BenchError> {
        let masters = [&self.plain, &self.unheard, &self.heard];
        let [plain_pid, unheard_pid, heard_pid] = masters.map(|one| one.server.process.pid());
        let workers = plain.iter_mut().collect();
        let baseline = Driven { name: BASELINE, workers, stop: self.stop };
        let mut rounds = Rounds {
            quiet: settings::quiet(self.settings),
            pids: &[std::process::id(), plain_pid, unheard_pid, heard_pid],
            baselines: vec![Box::new(baseline)],
        };
        let span = settings::span(self.settings);
        rounds.take(&span, &mut |span| drive(load, span, self.stop))
    }

    fn push(&self, kind: LoadKind, who: &str, least: f64, taken: &Taken, report: &mut Report) {
        let operation = format!("{} {who}", kind.load);
        let cell = Cell {
            operation: &operation,
            bytes: kind.bytes,
            depth: self.batch,
            threads: self.threads,
            unit: kind.unit,
        };
        let row = Row::of(&cell, taken);
        report.warn_of_dropped(&row, taken.dropped);
        report.warn_of_overdue(&row, taken.load.overdue);
        report.figures.push(Figure::rate(&row));
        if let Some(beside) = taken.beside.first() {
            let name = format!("{operation}, of that without events");
            let ratio = Figure::ratio(&name, beside.ratio().median);
            report.figures.push(ratio.with_goal(Goal::AtLeast(least)));
        }
        report.rows.push(row);
    }
}

/// What the publisher's thread did while a subscriber listened.
struct PublisherCost {
    before: HeardEvents,
    after: HeardEvents,
    /// CPU time of the thread.
    seconds: f64,
}

impl PublisherCost {
    /// # Errors
    /// The subscriber has heard nothing.
    fn figures(&self, kind: LoadKind) -> Result<[Figure; 3], BenchError> {
        let events = self.after.events - self.before.events;
        if events == 0 {
            let detail = "its subscriber has heard no event; the figure would be worthless";
            return Err(BenchError::program("The master", detail));
        }
        let figure = |what: &str, value, unit| Figure {
            name: format!("{}: {what}", kind.load),
            value,
            unit,
            goal: None,
        };
        let bytes = (self.after.bytes - self.before.bytes) as f64 / events as f64;
        let missed = (self.after.missed - self.before.missed) as f64;
        let ns = self.seconds * 1e9 / events as f64;
        Ok([
            figure("CPU time of the publisher per event", ns, FigureUnit::Nanoseconds),
            figure("bytes per event", bytes, FigureUnit::Bytes),
            figure("sequence numbers that the subscriber missed", missed, FigureUnit::Count),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_of_the_events_between_two_looks_and_none_is_an_error() {
        let before = HeardEvents { events: 10, bytes: 100, missed: 1 };
        let after = HeardEvents { events: 1010, bytes: 400_100, missed: 3 };
        let cost = PublisherCost { before, after, seconds: 0.001 };
        let values = cost.figures(KEYS).unwrap().map(|figure| figure.value);
        assert_eq!(values, [1000.0, 400.0, 2.0]);
        assert!(PublisherCost { after: before, ..cost }.figures(KEYS).is_err());
    }
}
