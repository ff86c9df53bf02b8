//! What the probes of level 1 cost TCP, with both ends on one CPU: on and off in turn, work per
//! second of CPU time, and the price of each program. Needs root and a build with probes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use perigee_probe_loader::{Feature, FeatureState, Probes};

use super::Bench;
use super::alone;
use crate::baseline::rounds::{Beside, Taken};
use crate::error::BenchError;
use crate::load::drive::Measured;
use crate::report::{RateUnit, Row};
use crate::settings;
use load::{Ready, ping_pong, stream, threads};

mod load;

type ProbedLoad = fn(Ready<'_>) -> Result<Measured, BenchError>;

const WORKS: [(&str, ProbedLoad); 2] =
    [("64 KiB stream with probes", stream), ("4 KiB exchange with probes", ping_pong)];

/// Takes a row of each work.
pub(super) fn take(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let allowed = load::pin()?;
    let taken = WORKS.into_iter().try_for_each(|(operation, work)| {
        let taken = rounds(work, settings::quiet(bench.settings).rounds)?;
        let row = Row::of(&alone(operation, RateUnit::Operations), &taken);
        bench.report.rows.push(row);
        costs(bench, operation, work)
    });
    load::unpin(&allowed)?;
    bench.note("probes: seconds are CPU seconds of this process, both ends on one CPU");
    taken
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::program("probes", error)
}

/// Probes on everything that level 1 watches of this process.
fn probes() -> Result<Probes, BenchError> {
    let wanted = "the agent attaches it on request only";
    let unused = FeatureState::Unused { reason: wanted.to_owned(), remedy: String::new() };
    let unused = BTreeMap::from([(Feature::Nics, unused)]);
    let mut probes = Probes::load(&unused).map_err(failed)?;
    let own = perigee_activity::control_group();
    if let Some((top, own)) = top_group().zip(own) {
        probes.watch_groups(&top, &BTreeSet::from([own])).map_err(failed)?;
    }
    let own = BTreeSet::from([std::process::id()]);
    probes.watch_processes(&own).map_err(failed)?;
    Ok(probes)
}

fn top_group() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
    Some(PathBuf::from(mount.split(' ').nth(1)?))
}

/// Work with probes between two takes without.
fn rounds(work: ProbedLoad, rounds: u32) -> Result<Taken, BenchError> {
    let mut without = Beside::new("no probes");
    let mut with = Measured::default();
    for _ in 0..rounds {
        let before = work(&mut || Ok(()))?;
        let mut watching = probes()?;
        let watched = work(&mut || watching.watch_threads(&threads()?).map_err(failed))?;
        drop(watching);
        let after = work(&mut || Ok(()))?;
        let rate = f64::midpoint(before.rate(), after.rate());
        without.ratios.push(watched.rate() / rate.max(1e-9));
        with.add(&watched);
        without.measured.add(&before);
        without.measured.add(&after);
    }
    let mut taken = Taken::from(with);
    taken.beside.push(without);
    Ok(taken)
}

/// Runs of each program in one more slice, by the kernel's statistics, which add about 30 ns to
/// each run themselves.
fn costs(bench: &mut Bench<'_>, operation: &str, work: ProbedLoad) -> Result<(), BenchError> {
    let mut watching = probes()?;
    let measuring = watching.measure_costs().map_err(failed)?;
    let done = work(&mut || watching.watch_threads(&threads()?).map_err(failed))?;
    for (_, cost) in watching.costs().into_iter().filter(|(_, cost)| cost.runs > 0) {
        bench.note(format!(
            "{operation}: {} ran {:.2} times each, {} ns a run",
            cost.program,
            cost.runs as f64 / done.operations.max(1) as f64,
            cost.run_ns / cost.runs
        ));
    }
    drop(measuring);
    Ok(())
}
