//! `perigee bench disk`: the log of objects on a disk, beside fio on the same files.
//! Invariant: fio reads and writes as much at once, in blocks of the same size, in turn with the
//! rows; what a run writes lies in a folder of its own, which it removes.

use crate::baseline::rounds::{Baseline as _, Beside, Taken};
use crate::error::BenchError;
use crate::limits::DEMOTION_FIO;
use crate::load::drive::{Measured, Span, drive};
use crate::report::{Cell, Figure, Goal, RateUnit, Report, Row};
use crate::run::{Run, Tool};
use crate::stop::Stop;
use end::DiskEnd;
use fio::{FIO, Fio};
use get_worker::GetWorker;
use settings::{APPEND, DEMOTE, DiskLoad, EXAMPLES, GET, GET_OWN, PROGRAM, READ};
use tier::TierEnd;
use worker::DiskWorker;

mod end;
mod fio;
mod get_worker;
mod settings;
mod tier;
mod worker;

/// Part of fio's rate that a row has at least.
const GOAL: f64 = 0.9;
/// The same of a get.
const GET_GOAL: f64 = 0.8;

/// The tool.
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
    let end = DiskEnd::start(settings)?;
    let outcome = measure(settings, &operations, (&end, with_fio), stop, report);
    end.stop();
    outcome
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
            let places = match *operation {
                READ => end.fill(*bytes)?,
                _ => end.go_round(*bytes).map(|()| Vec::new())?,
            };
            let per_call = settings.objects_per_call(operation, *bytes);
            for depth in settings.depths(operation) {
                let mut workers = [match *operation {
                    READ => DiskWorker::reads(end, *bytes, depth, places.clone()),
                    _ => DiskWorker::writes(end, *bytes, depth, per_call),
                }];
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

/// A load in rounds, each between two takes of fio. All count: a disk is never as quiet as memory,
/// so what is compared is taken close together.
fn beside(
    settings: &DiskLoad,
    fio: Option<Fio>,
    load: &mut dyn FnMut(&Span) -> Result<Measured, BenchError>,
) -> Result<Taken, BenchError> {
    let part = settings.span.part(settings.rounds);
    let mut taken = Taken::from(Measured::default());
    let Some(mut fio) = fio else {
        for _ in 0..settings.rounds {
            taken.load.add(&load(&part)?);
        }
        return Ok(taken);
    };
    let mut beside = Beside::new(FIO);
    for _ in 0..settings.rounds {
        let before = fio.measure(part.duration / 2)?;
        let measured = load(&part)?;
        let after = fio.measure(part.duration / 2)?;
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
