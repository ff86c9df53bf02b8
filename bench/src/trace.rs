//! `perigee bench trace`: replay of a request trace through the store's client.
//! Invariant: every byte that is read is compared, and a block counts as a hit only in an unbroken
//! prefix.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use perigee_store::Store;

use crate::ends::cluster::open_store;
use crate::ends::own_host;
use crate::error::BenchError;
use crate::limits::{NEAR_KEYS, SEGMENT_POOLS};
use crate::load::drive::{Measured, Span, drive};
use crate::load::latency::Latency;
use crate::load::removal::{self, left_behind};
use crate::load::requests::read_trace;
use crate::report::{Cell, Figure, FigureUnit, Rate, RateUnit, Report, Row, TOTAL};
use crate::run::{Run, Tool};
use crate::settings::route_word;
use crate::stop::Stop;
use crate::store::cluster;
use replay::{Calls, Replayer, Tally};
use settings::{EXAMPLES, PROGRAM, TraceSettings};

mod replay;
mod settings;

pub(crate) const TOOL: Tool = Tool { name: "trace", program: PROGRAM, examples: EXAMPLES, run };

fn run(run: Run<'_>) -> Result<(), BenchError> {
    let settings = TraceSettings::of(&run.settings)?;
    let requests = read_trace(Path::new(&settings.trace), settings.requests)?;
    run.measure(|_, stop, report| {
        let mut note = |text: &str| report.notes.push(text.to_owned());
        note("request: exist, get of the cached prefix, put of the rest, without making and comparing bytes");
        note("bandwidth of get and put: bytes by the time in these calls; of request: by the wall time");
        measure(&settings, &requests, stop, report)
    })
}

fn measure(
    settings: &TraceSettings,
    requests: &[Vec<u64>],
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let (master, companion) = cluster(
        &settings.master,
        settings.pool_bytes / SEGMENT_POOLS,
        route_word(settings.route),
        None,
    )?;
    report.loopback = companion.is_some();
    let client = open_store(&master, 0, settings.route)?;
    let name = format!("trace-{:016x}", getrandom::u64().map_err(std::io::Error::other)?);
    let longest = requests.iter().map(Vec::len).max().unwrap_or(0);
    let mut replayers = (0..settings.threads)
        .map(|thread| {
            let share: Vec<&[u64]> =
                requests.iter().skip(thread).step_by(settings.threads).map(Vec::as_slice).collect();
            Replayer::new(&client, share, &name, settings.block_bytes, longest)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let measured = drive(&mut replayers, &Span::cold(Duration::MAX), stop);
    let tally = replayers.iter().fold(Tally::default(), Tally::and);
    report.loopback |= own_host::is_this_machine(&master) && is_near(&client, requests, &name);
    if companion.is_none()
        && let Err(error) = remove(&client, requests, &name)
    {
        report.warnings.push(left_behind(&error));
    }
    client.close();
    fill(settings, &measured?, &tally, report);
    judge(&tally, report)
}

/// Warns of blocks that the cluster would not keep, and refuses figures of nothing.
fn judge(tally: &Tally, report: &mut Report) -> Result<(), BenchError> {
    let blocks = tally.blocks;
    if tally.corrupt > 0 {
        let key = format!("{} of {blocks} blocks", tally.corrupt);
        return Err(BenchError::Corrupt { key });
    }
    let Some(status) = tally.refusal else {
        return Ok(());
    };
    report.warnings.push(format!(
        "{} of {blocks} blocks were lost or refused, the first with {status}: hit rate and bandwidth are \
         of the others",
        tally.failed
    ));
    if tally.get.bytes + tally.put.bytes > 0 {
        return Ok(());
    }
    Err(BenchError::NothingStored { blocks, status })
}

/// Whether what is stored of the last requests lies on this host.
fn is_near(client: &Store, requests: &[Vec<u64>], name: &str) -> bool {
    let blocks = requests.iter().rev().flatten().take(NEAR_KEYS);
    let keys: Vec<String> = blocks.map(|block| replay::key(name, *block)).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    client.is_near(&client.peek(&keys))
}

/// Removes what the replay stored.
fn remove(client: &Store, requests: &[Vec<u64>], name: &str) -> Result<(), BenchError> {
    let blocks: BTreeSet<u64> = requests.iter().flatten().copied().collect();
    let keys: Vec<String> = blocks.iter().map(|block| replay::key(name, *block)).collect();
    removal::remove(client, keys.iter().map(String::as_str))
}

fn fill(settings: &TraceSettings, measured: &Measured, tally: &Tally, report: &mut Report) {
    let cell = |operation, unit| Cell {
        operation,
        bytes: settings.block_bytes,
        depth: 1,
        threads: settings.threads as u64,
        unit,
    };
    let request = Row::total(&cell("request", RateUnit::Bytes), measured);
    let latency = request.latency.as_ref();
    let figure =
        |name: &str, value, unit| Figure { name: name.to_owned(), value, unit, goal: None };
    let nanos = |pick: fn(&Latency) -> u64| latency.map_or(0, pick) as f64;
    report.figures = vec![
        figure("hit rate", tally.hit_rate(), FigureUnit::Share),
        figure("moved", request.rate.average, FigureUnit::BytesPerSecond),
        figure("request, p50", nanos(|l| l.p50_ns), FigureUnit::Nanoseconds),
        figure("request, p99", nanos(|l| l.p99_ns), FigureUnit::Nanoseconds),
        figure("corrupt blocks", tally.corrupt as f64, FigureUnit::Count),
        figure("blocks lost or refused", tally.failed as f64, FigureUnit::Count),
    ];
    report.rows.push(request);
    for (operation, calls) in [("get", &tally.get), ("put", &tally.put)] {
        report.rows.push(calls_row(&cell(operation, RateUnit::Bytes), calls));
    }
}

/// Calls of one kind: units by the time that threads spent in them.
fn calls_row(cell: &Cell<'_>, calls: &Calls) -> Row {
    let seconds = calls.time.as_secs_f64().max(1e-9);
    let average = calls.bytes as f64 / seconds;
    let latency = calls.latency.summary();
    let iterations = latency.as_ref().map_or(0, |latency| latency.count);
    Row {
        operation: cell.operation.to_owned(),
        nic: TOTAL.to_owned(),
        bytes: cell.bytes,
        depth: cell.depth,
        threads: cell.threads,
        iterations,
        seconds,
        operations_per_second: iterations as f64 / seconds,
        rate: Rate { unit: cell.unit, peak: average, average, samples: Vec::new() },
        latency,
        corrupt: 0,
        baselines: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;
    use perigee_schemas::Status;

    fn judged(failed: u64, stored_bytes: u64) -> (Result<(), BenchError>, Vec<String>) {
        let mut tally = Tally {
            blocks: 7,
            failed,
            refusal: (failed > 0).then_some(Status::NoAvailableHandle),
            ..Tally::default()
        };
        tally.put.bytes = stored_bytes;
        let mut report = samples::nic();
        report.warnings.clear();
        (judge(&tally, &mut report), report.warnings)
    }

    #[test]
    fn refused_blocks_are_warned_of_and_a_run_that_stored_nothing_fails() {
        let (outcome, warnings) = judged(0, 100);
        assert!(outcome.is_ok() && warnings.is_empty());
        let (outcome, warnings) = judged(3, 100);
        assert!(outcome.is_ok());
        assert!(warnings[0].starts_with("3 of 7 blocks"), "{warnings:?}");
        let (outcome, warnings) = judged(7, 0);
        let error = outcome.unwrap_err();
        assert_eq!((error.exit_code(), warnings.len()), (75, 1));
        assert!(error.to_string().contains("NO_AVAILABLE_HANDLE"), "{error}");
    }
}
