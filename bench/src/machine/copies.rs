//! Copies between two cold memories: the one of the data plane, which sums as it copies, against
//! those that do not.

use perigee_memory::kernel::Kernel;

use super::{Bench, alone};
use crate::baseline::copy::{Copier, Towards, Work, baseline};
use crate::baseline::rounds::{Baseline, Rounds};
use crate::ends::memory_pair::MemoryPair;
use crate::error::BenchError;
use crate::load::drive::drive;
use crate::report::{Cell, Figure, Goal, RateUnit, Row};
use crate::settings;

const SIZES: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
/// What stays in the caches.
const WARM_ROOM: usize = 256 << 10;
const WARM_BYTES: usize = 64 << 10;
const DIRECTIONS: [(&str, Towards); 2] =
    [("copy with sum, get", Towards::Buffer), ("copy with sum, put", Towards::Segment)];

/// The copy with a sum against the same copy without, and what the C library does.
pub(super) fn take(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let pair = pair(bench)?;
    let warm = Copier::new(&pair, Work::Memcpy, Towards::Buffer, WARM_BYTES).within(WARM_ROOM);
    plain(bench, "warm memcpy", WARM_BYTES, warm)?;
    let sum = Copier::new(&pair, Work::Sum, Towards::Buffer, 1 << 20);
    plain(bench, "sum alone", 1 << 20, sum)?;
    rows(bench, &pair, &[Work::Streaming, Work::Memcpy])?;
    for (operation, _) in DIRECTIONS {
        let rows = bench.report.rows.iter();
        let rows = rows.filter(|row| row.operation == operation);
        let worst = Figure::worst(rows, operation, Work::Streaming.name());
        let figure = worst.map(|figure| figure.with_goal(Goal::AtLeast(0.9)));
        bench.report.figures.extend(figure);
    }
    bench.note(format!("the copy with a sum runs on the kernel {:?}", Kernel::best()));
    Ok(())
}

/// The copy with a sum against itself on every other kernel of this CPU, and against two passes.
pub(super) fn take_kernels(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let pair = pair(bench)?;
    let others = Kernel::ALL.into_iter();
    let others = others.filter(|kernel| kernel.is_available() && *kernel != Kernel::best());
    let works: Vec<Work> = others.map(Work::Summing).chain([Work::TwoPasses]).collect();
    rows(bench, &pair, &works)
}

fn pair(bench: &Bench<'_>) -> Result<MemoryPair, BenchError> {
    MemoryPair::new(bench.settings.integer("memory"))
}

fn cell(operation: &str, bytes: usize) -> Cell<'_> {
    Cell { bytes: bytes as u64, ..alone(operation, RateUnit::Bytes) }
}

fn plain(
    bench: &mut Bench<'_>,
    operation: &str,
    bytes: usize,
    copier: Copier<'_>,
) -> Result<(), BenchError> {
    let span = settings::duration(bench.settings);
    let measured = drive(&mut [copier], &span, bench.stop)?;
    let row = Row::total(&cell(operation, bytes), &measured);
    bench.report.rows.push(row);
    Ok(())
}

fn rows(bench: &mut Bench<'_>, pair: &MemoryPair, against: &[Work]) -> Result<(), BenchError> {
    let stop = bench.stop;
    let asked: usize = bench.settings.integer("size");
    let sizes = SIZES.into_iter().filter(|bytes| *bytes <= pair.bytes());
    let sizes = if asked == 0 { sizes.collect() } else { vec![asked.min(pair.bytes())] };
    for (operation, towards) in DIRECTIONS {
        for bytes in &sizes {
            let copy = |work: &Work| -> Box<dyn Baseline + '_> {
                Box::new(baseline(pair, *work, towards, *bytes, stop))
            };
            let mut rounds = Rounds {
                quiet: settings::quiet(bench.settings),
                pids: &[std::process::id()],
                baselines: against.iter().map(copy).collect(),
            };
            let mut copier = [Copier::new(pair, Work::Summing(Kernel::best()), towards, *bytes)];
            let span = settings::duration(bench.settings);
            let taken = rounds.take(&span, &mut |span| drive(&mut copier, span, stop))?;
            let row = Row::of(&cell(operation, *bytes), &taken);
            bench.report.warn_of_dropped(&row, taken.dropped);
            bench.report.rows.push(row);
        }
    }
    Ok(())
}
