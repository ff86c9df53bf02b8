//! `perigee bench disk`: the log of objects on a disk, beside fio on the same files.
//! Invariant: fio reads and writes as much at once, in blocks of the same size, in turn with the
//! rows; what a run writes lies in a folder of its own, which it removes.

use crate::baseline::rounds::{Baseline, Beside, Driven, Taken};
use crate::error::BenchError;
use crate::limits::DEMOTION_FIO;
use crate::load::drive::{Measured, Span, drive};
use crate::load::get_worker::GetWorker;
use crate::report::{Cell, Figure, Goal, RateUnit, Report, Row};
use crate::run::{Run, Tool};
use crate::stop::Stop;
use end::DiskEnd;
use fio::{FIO, Fio};
use perigee_schemas::disk_address::DiskAddress;
use perigee_ssd::StorageKey;
use settings::{APPEND, DEMOTE, DiskLoad, ENCRYPTED, EXAMPLES, GET, GET_OWN, PROGRAM, READ};
use tier::TierEnd;
use worker::DiskWorker;

mod end;
mod fio;
mod settings;
mod tier;
mod worker;

/// Part of fio's rate that a row has at least.
const GOAL: f64 = 0.9;
/// The same of a get.
const GET_GOAL: f64 = 0.8;
/// What rows of an encrypted disk are held against.
const NO_KEY: &str = "without a key";

pub(crate) const TOOL: Tool = Tool { name: "disk", program: PROGRAM, examples: EXAMPLES, run };

fn run(run: Run<'_>) -> Result<(), BenchError> {
    let settings = DiskLoad::of(&run.settings)?;
    run.measure(|_, stop, report| {
        report.loopback = true;
        let fio = settings.with_fio && fio::is_here();
        notes(&settings, fio, report);
        let outcome = of_log(&settings, fio, stop, report)
            .and_then(|()| of_tier(&settings, fio, stop, report));
        for (operation, goal) in
            [(APPEND, GOAL), (DEMOTE, GOAL), (READ, GOAL), (GET, GET_GOAL), (GET_OWN, GET_GOAL)]
        {
            let rows = report.rows.iter().filter(|row| row.operation == operation);
            let worst = Figure::worst(rows, operation, FIO);
            report.figures.extend(worst.map(|figure| figure.with_goal(Goal::AtLeast(goal))));
        }
        for (_, operation) in ENCRYPTED {
            let rows = report.rows.iter().filter(|row| row.operation == operation);
            report.figures.extend(Figure::worst(rows, operation, NO_KEY));
        }
        outcome
    })
}

fn notes(settings: &DiskLoad, fio: bool, report: &mut Report) {
    report.notes.push(
        "append: a call of one object, on files that have been written once; \
         demote: calls of 8 MiB, as the owner of a disk makes them, beside fio with 8 of 1 MiB; \
         read: whole objects at random; \
         get: a call for so many objects that lie on a disk alone, by a client over TCP; \
         get own: the same by the client whose disk it is"
            .to_owned(),
    );
    let beside = match (settings.with_fio, fio) {
        (true, true) => "fio runs before and after each round, io_uring, O_DIRECT, fixed buffers",
        (true, false) => "fio is not installed: rows are held against nothing",
        (false, _) => "rows are held against nothing",
    };
    report.notes.push(beside.to_owned());
}

/// Rows of the log itself.
fn of_log(
    settings: &DiskLoad,
    with_fio: bool,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let operations: Vec<&'static str> =
        settings.operations.iter().copied().filter(|operation| *operation != GET).collect();
    if operations.is_empty() {
        return Ok(());
    }
    let end = DiskEnd::start(settings, None)?;
    let outcome = measure(settings, &operations, (&end, with_fio), stop, report)
        .and_then(|()| of_encrypted(settings, &operations, &end, stop, report));
    end.stop();
    outcome
}

/// The same rows of an encrypted disk, each in turn with the same load of the one without a key.
fn of_encrypted(
    settings: &DiskLoad,
    operations: &[&'static str],
    plain: &DiskEnd,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    if !settings.encrypted {
        return Ok(());
    }
    let end = DiskEnd::start(settings, Some(StorageKey::new([0x5a; 32])))?;
    let mut wanted = ENCRYPTED.into_iter().filter(|(of, _)| operations.contains(of));
    let outcome = wanted.try_for_each(|names| {
        let mut sizes = settings.sizes.iter();
        sizes.try_for_each(|bytes| {
            encrypted_rows(settings, (names, plain, &end), *bytes, stop, report)
        })
    });
    end.stop();
    outcome
}

fn encrypted_rows(
    settings: &DiskLoad,
    ((of, operation), plain, end): ((&'static str, &'static str), &DiskEnd, &DiskEnd),
    bytes: u64,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let places = [prepare(plain, of, bytes)?, prepare(end, of, bytes)?];
    for depth in settings.depths(of) {
        let worker = |end, places: &[_]| worker(settings, end, of, (bytes, depth), places);
        let (name, workers) = (NO_KEY, vec![worker(plain, &places[0])]);
        let without = Driven { name, workers, stop };
        let mut workers = [worker(end, &places[1])];
        let load = &mut |span: &Span| drive(&mut workers, span, stop);
        let taken = beside(settings, Some(without), load)?;
        let cell = Cell { operation, bytes, depth, threads: 1, unit: RateUnit::Bytes };
        report.rows.push(Row::of(&cell, &taken));
    }
    Ok(())
}

/// Objects to read, or files that were written once: where the objects are.
fn prepare(end: &DiskEnd, operation: &str, bytes: u64) -> Result<Vec<DiskAddress>, BenchError> {
    match operation {
        READ => end.fill(bytes),
        _ => end.go_round(bytes).map(|()| Vec::new()),
    }
}

fn worker<'a>(
    settings: &DiskLoad,
    end: &'a DiskEnd,
    operation: &str,
    (bytes, depth): (u64, u64),
    places: &[DiskAddress],
) -> DiskWorker<'a> {
    match operation {
        READ => DiskWorker::reads(end, bytes, depth, places.to_vec()),
        _ => DiskWorker::writes(end, bytes, depth, settings.objects_per_call(operation, bytes)),
    }
}

/// Rows of whole gets: by the owner of a disk, and by a client that asks the owner over TCP.
fn of_tier(
    settings: &DiskLoad,
    with_fio: bool,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    if !settings.operations.contains(&GET) {
        return Ok(());
    }
    for bytes in &settings.sizes {
        let end = TierEnd::start(settings, *bytes)?;
        for (operation, store) in [(GET, &end.reader), (GET_OWN, &end.owner)] {
            for depth in settings.depths(GET) {
                let mut workers = [GetWorker::new(store, &end.keys, *bytes, depth)];
                let fio =
                    with_fio.then(|| end.files().map(|files| Fio::reads(files, *bytes, depth)));
                let load = &mut |span: &Span| drive(&mut workers, span, stop);
                let taken = beside(settings, fio.transpose()?, load)?;
                let cell =
                    Cell { operation, bytes: *bytes, depth, threads: 1, unit: RateUnit::Bytes };
                report.rows.push(Row::of(&cell, &taken));
            }
        }
        end.stop();
    }
    Ok(())
}

fn measure(
    settings: &DiskLoad,
    operations: &[&'static str],
    (end, with_fio): (&DiskEnd, bool),
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    for operation in operations {
        for bytes in &settings.sizes {
            let places = prepare(end, operation, *bytes)?;
            for depth in settings.depths(operation) {
                let mut workers = [worker(settings, end, operation, (*bytes, depth), &places)];
                let fio = with_fio.then(|| fio_of(end, operation, *bytes, depth));
                let load = &mut |span: &Span| drive(&mut workers, span, stop);
                let taken = beside(settings, fio, load)?;
                let cell =
                    Cell { operation, bytes: *bytes, depth, threads: 1, unit: RateUnit::Bytes };
                report.rows.push(Row::of(&cell, &taken));
            }
        }
    }
    Ok(())
}

/// What fio does in the place of an operation of the log.
fn fio_of(end: &DiskEnd, operation: &str, bytes: u64, depth: u64) -> Fio {
    let folder = end.folder().to_owned();
    let file_bytes = end.spec.segment_bytes.into();
    match operation {
        READ => Fio::reads(folder, bytes, depth),
        DEMOTE => Fio::writes(folder, DEMOTION_FIO.0, DEMOTION_FIO.1, file_bytes),
        _ => Fio::writes(folder, bytes, depth, file_bytes),
    }
}

/// A load in rounds, each between two takes of what it is held against. All count: a disk is never
/// as quiet as memory, so what is compared is taken close together.
fn beside(
    settings: &DiskLoad,
    baseline: Option<impl Baseline>,
    load: &mut dyn FnMut(&Span) -> Result<Measured, BenchError>,
) -> Result<Taken, BenchError> {
    let part = settings.span.part(settings.rounds);
    let mut taken = Taken::from(Measured::default());
    let Some(mut baseline) = baseline else {
        for _ in 0..settings.rounds {
            taken.load.add(&load(&part)?);
        }
        return Ok(taken);
    };
    let mut beside = Beside::new(baseline.name());
    for _ in 0..settings.rounds {
        let before = baseline.measure(part.duration / 2)?;
        let measured = load(&part)?;
        let after = baseline.measure(part.duration / 2)?;
        let rate = f64::midpoint(before.rate(), after.rate());
        beside.ratios.push(measured.rate() / rate.max(1e-9));
        beside.measured.add(&before);
        beside.measured.add(&after);
        taken.load.add(&measured);
    }
    taken.beside.push(beside);
    Ok(taken)
}

#[cfg(test)]
mod tests;
