//! What the checksum costs: the copy that sums against the same copy without, from cold memory to cold memory.
//! Invariant: the two alternate block by block, at fresh random places.

use std::hint::black_box;
use std::time::Instant;

use perigee_memory::copy::{copy_blocks, copy_streaming};
use perigee_memory::kernel::Kernel;
use perigee_memory::limits::BLOCK_BYTES;

use crate::limits::COPY_BYTES;
use crate::report::{Cell, Figure, Goal, Report};
use perigee_runner::BenchError;
use perigee_runner::memory_pair::MemoryPair;
use perigee_runner::sample::{Places, Spread};

const SIZES: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
/// Bytes each variant copies per size.
const BYTES_PER_CELL: usize = 3 << 30;
const ROUNDS_MAX: usize = 10_001;

/// Options of `integrity-cost`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Repeats the whole measurement; medians are over all blocks.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Measures.
pub(crate) fn run(options: &Options) -> Result<Report, BenchError> {
    let pair = MemoryPair::new(COPY_BYTES)?;
    let mut rows = Vec::new();
    let mut worst = [f64::MAX; 2];
    let directions = [
        ("get", pair.segment(), pair.buffer()),
        ("put", pair.buffer(), pair.segment()),
    ];
    for (at, (name, source, target)) in directions.into_iter().enumerate() {
        for bytes in SIZES {
            let (plain, summed) = measure(bytes, source, target, options.rounds.max(1));
            let ratio = plain.median / summed.median;
            worst[at] = worst[at].min(ratio);
            rows.push(vec![
                Cell::Text(name.to_owned()),
                Cell::Number((bytes >> 10) as f64, 0),
                Cell::Number(bytes as f64 / plain.median, 2),
                Cell::Number(bytes as f64 / summed.median, 2),
                Cell::Number(ratio, 3),
            ]);
        }
    }
    let figure = |name: &str, value| Figure {
        name: name.to_owned(),
        value,
        unit: "of the plain copy",
        goal: Some(Goal::AtLeast(0.9)),
    };
    Ok(Report {
        figures: vec![
            figure("get with checksum, worst size", worst[0]),
            figure("put with checksum, worst size", worst[1]),
        ],
        columns: &["direction", "KiB", "plain GB/s", "summed GB/s", "ratio"],
        rows,
        notes: vec![format!(
            "kernel {:?}, streaming stores in both",
            Kernel::best()
        )],
    })
}

/// Nanoseconds of the plain and of the summing copy of `bytes`.
fn measure(bytes: usize, source: *const u8, target: *mut u8, rounds: usize) -> (Spread, Spread) {
    let mut places = Places::new(0x9E37_79B9_7F4A_7C15);
    let (mut plain, mut summed) = (Vec::new(), Vec::new());
    let mut blocks = Vec::new();
    for _ in 0..(rounds * BYTES_PER_CELL / 3 / bytes).clamp(11, ROUNDS_MAX) {
        let mut place = || {
            let from = source.wrapping_add(places.offset(bytes, COPY_BYTES));
            (target.wrapping_add(places.offset(bytes, COPY_BYTES)), from)
        };
        let (to, from) = place();
        let start = Instant::now();
        // SAFETY: places leave room for `bytes` in either memory, and the memories are apart.
        unsafe { copy_streaming(to, from, bytes) };
        plain.push(start.elapsed().as_nanos() as f64);
        let (to, from) = place();
        let start = Instant::now();
        // SAFETY: as above.
        black_box(unsafe { copy_blocks(to, from, bytes, BLOCK_BYTES, &mut blocks) });
        summed.push(start.elapsed().as_nanos() as f64);
    }
    (Spread::of(&plain), Spread::of(&summed))
}
