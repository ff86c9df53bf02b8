//! A load against a one-thread memcpy of blocks of the same size between cold memories, and against the bare pump.
//! Invariant: memcpy and pump are taken directly before and after each round, and a round in which the machine was not
//! quiet does not count.

use std::time::{Duration, Instant};

use perigee_runner::BenchError;
use perigee_runner::machine::Watch;
use perigee_runner::memory_pair::MemoryPair;
use perigee_runner::sample::{Places, Spread};

use crate::limits::{
    CEILING_DRIFT_MAX, COLD_BYTES, COLD_TIME, FOREIGN_SHARE_MAX, STEAL_SHARE_MAX, TRIES_PER_ROUND,
};
use crate::pump::Pump;
use crate::report::{Cell, Figure};

/// How many rounds, how long, and what counts as quiet.
#[derive(clap::Args)]
pub(crate) struct Quiet {
    /// Quiet rounds per row.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of transfers per round.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Keep rounds in which the machine was not quiet.
    #[arg(long)]
    any_noise: bool,
}

impl Quiet {
    /// Quiet rounds per row.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.max(1)
    }
}

/// Columns of the table.
pub(crate) const COLUMNS: &[&str] = &[
    "call",
    "KiB",
    "in flight",
    "TCP GB/s",
    "memcpy GB/s",
    "ratio",
    "low",
    "high",
    "pump GB/s",
    "pump/memcpy",
    "to pump",
    "rounds",
    "dropped",
];

/// The figure that says how much of the kernel's own path is left to a load.
pub(crate) fn against_pump(name: &str, ratio: f64) -> Figure {
    Figure {
        name: name.to_owned(),
        value: ratio,
        unit: "of the bare pump (polling io_uring, Reno, no protocol, no checksum)",
        goal: None,
    }
}

/// What the rounds of a row gave.
pub(crate) struct Rounds {
    moved: Vec<f64>,
    memcpy: Vec<f64>,
    pump: Vec<f64>,
    dropped: usize,
}

impl Rounds {
    /// Rate of the load by that of the memcpy.
    pub(crate) fn ratio(&self) -> Spread {
        ratio(&self.moved, &self.memcpy)
    }

    /// Rate of the load by that of the pump.
    pub(crate) fn to_pump(&self) -> Spread {
        ratio(&self.moved, &self.pump)
    }

    /// A row of the table with these columns: [`COLUMNS`].
    pub(crate) fn row(&self, call: &str, bytes: usize, per_call: usize) -> Vec<Cell> {
        let ratio = self.ratio();
        vec![
            Cell::Text(call.to_owned()),
            Cell::Number((bytes >> 10) as f64, 0),
            Cell::Number(per_call as f64, 0),
            Cell::Number(Spread::of(&self.moved).median, 2),
            Cell::Number(Spread::of(&self.memcpy).median, 2),
            Cell::Number(ratio.median, 3),
            Cell::Number(ratio.low, 3),
            Cell::Number(ratio.high, 3),
            Cell::Number(Spread::of(&self.pump).median, 2),
            Cell::Number(self::ratio(&self.pump, &self.memcpy).median, 3),
            Cell::Number(self.to_pump().median, 3),
            Cell::Number(self.moved.len() as f64, 0),
            Cell::Number(self.dropped as f64, 0),
        ]
    }
}

/// Takes rounds until enough were quiet; `load` moves bytes for about so long and says how long it took and how many.
pub(crate) fn rounds(
    quiet: &Quiet,
    pids: &[u32],
    pair: &MemoryPair,
    pump: &Pump,
    load: &mut dyn FnMut(Duration) -> Result<(Duration, usize), BenchError>,
) -> Result<Rounds, BenchError> {
    let wanted = quiet.rounds();
    let time = Duration::from_secs_f64(quiet.seconds.clamp(0.01, 600.0));
    let (mut places, bytes) = (Places::new(11), pump.bytes);
    let mut taken = Rounds {
        moved: Vec::new(),
        memcpy: Vec::new(),
        pump: Vec::new(),
        dropped: 0,
    };
    let mut why = String::new();
    for _ in 0..wanted * TRIES_PER_ROUND {
        let started = Instant::now();
        let watch = Watch::start(pids)?;
        let before = memcpy_rate(pair, bytes, &mut places);
        let pump_before = pump.rate(pair, time / 2)?;
        let (spent, moved) = load(time)?;
        let pump_after = pump.rate(pair, time / 2)?;
        let after = memcpy_rate(pair, bytes, &mut places);
        let noise = watch.noise(started.elapsed())?;
        let drift = (before - after).abs() / before.max(after);
        let is_quiet = noise.foreign <= FOREIGN_SHARE_MAX
            && noise.stolen <= STEAL_SHARE_MAX
            && drift <= CEILING_DRIFT_MAX;
        if is_quiet || quiet.any_noise {
            taken.moved.push(moved as f64 / spent.as_nanos() as f64);
            taken.memcpy.push(f64::midpoint(before, after));
            taken.pump.push(f64::midpoint(pump_before, pump_after));
        } else {
            taken.dropped += 1;
            why = format!(
                "others took {:.0} %, stolen {:.0} %, memcpy moved by {:.0} %",
                noise.foreign * 100.0,
                noise.stolen * 100.0,
                drift * 100.0
            );
        }
        if taken.moved.len() == wanted {
            return Ok(taken);
        }
    }
    Err(BenchError::Noise {
        kept: taken.moved.len(),
        wanted,
        why,
    })
}

fn ratio(ones: &[f64], others: &[f64]) -> Spread {
    let pairs = ones.iter().zip(others);
    Spread::of(&pairs.map(|(one, other)| one / other).collect::<Vec<_>>())
}

/// GB/s of a memcpy of blocks from random places to random places.
fn memcpy_rate(pair: &MemoryPair, bytes: usize, places: &mut Places) -> f64 {
    let start = Instant::now();
    let mut copied = 0;
    while start.elapsed() < COLD_TIME {
        let source = pair
            .segment()
            .wrapping_add(places.offset(bytes, COLD_BYTES));
        let target = pair.buffer().wrapping_add(places.offset(bytes, COLD_BYTES));
        // SAFETY: places leave room for `bytes` in either memory, and the memories are apart.
        unsafe { target.copy_from_nonoverlapping(source, bytes) };
        std::hint::black_box(target);
        copied += bytes;
    }
    copied as f64 / start.elapsed().as_nanos() as f64
}
