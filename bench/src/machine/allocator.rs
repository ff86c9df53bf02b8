//! The space allocator in the steady state of a full range, with random eviction.
//! Invariant: sizes and victims come from fixed seeds; the time is that of the whole loop,
//! generator included.

use std::time::Instant;

use perigee_allocator::{Extent, OffsetAllocator};

use super::Bench;
use crate::error::BenchError;
use crate::load::drive::Measured;
use crate::report::{Figure, FigureUnit, Goal, RateUnit};
use crate::sample::Places;

const GIB: u64 = 1 << 30;

/// A mix of sizes with the utilisation wanted of it.
struct Mix {
    name: &'static str,
    capacity: u64,
    wanted: f64,
    bytes: fn(&mut Places) -> u64,
}

const MIXES: [Mix; 6] = [
    Mix { name: "1 MiB + 17", capacity: 16 * GIB, wanted: 0.99, bytes: |_| (1 << 20) + 17 },
    Mix { name: "64 KiB + 64", capacity: 4 * GIB, wanted: 0.99, bytes: |_| (64 << 10) + 64 },
    Mix { name: "2.5 MiB + 512", capacity: 16 * GIB, wanted: 0.99, bytes: |_| (5 << 19) + 512 },
    Mix {
        name: "3.12 MB or 643 KiB",
        capacity: 16 * GIB,
        wanted: 0.97,
        bytes: |places| [3_271_557, 658_432][places.below(2) as usize],
    },
    Mix {
        name: "1.25 MiB or 4.5 MiB",
        capacity: 16 * GIB,
        wanted: 0.97,
        bytes: |places| [5 << 18, 9 << 19][places.below(2) as usize],
    },
    Mix {
        name: "4 KiB to 64 MiB, log-uniform",
        capacity: 16 * GIB,
        wanted: 0.86,
        bytes: log_uniform,
    },
];

fn log_uniform(places: &mut Places) -> u64 {
    let unit = places.below(1 << 53) as f64 / (1_u64 << 53) as f64;
    ((4096.0 * 16_384_f64.powf(unit)) as u64).next_multiple_of(16)
}

/// Takes a row of each mix.
pub(super) fn take(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let allocations: u64 = bench.settings.integer("allocations");
    let mut slowest = 0.0_f64;
    for mix in MIXES {
        let state = measure(&mix, allocations);
        slowest = slowest.max(1e9 / state.measured.rate());
        let operation = format!("allocator, {}", mix.name);
        bench.push(&operation, RateUnit::Operations, &state.measured);
        bench.report.figures.push(Figure {
            name: format!("{operation}: in use once full"),
            value: state.used,
            unit: FigureUnit::Share,
            goal: Some(Goal::AtLeast(mix.wanted)),
        });
        bench.note(format!("{operation}: {} holes at the end", state.holes));
    }
    bench.report.figures.push(Figure {
        name: "allocation or free, slowest mix".to_owned(),
        value: slowest,
        unit: FigureUnit::Nanoseconds,
        goal: Some(Goal::AtMost(300.0)),
    });
    Ok(())
}

/// What a mix came to.
struct State {
    /// Allocations and frees.
    measured: Measured,
    /// Mean share in use once full.
    used: f64,
    /// Free extents at the end.
    holes: usize,
}

fn measure(mix: &Mix, allocations: u64) -> State {
    let mut places = Places::new(7);
    let mut allocator = OffsetAllocator::new(mix.capacity);
    let mut live: Vec<Extent> = Vec::new();
    let (mut calls, mut used, mut samples) = (0, 0.0, 0_u32);
    let mut evicted = false;
    let start = Instant::now();
    for _ in 0..allocations {
        let wanted = (mix.bytes)(&mut places);
        let extent = loop {
            calls += 1;
            if let Some(extent) = allocator.alloc(wanted) {
                break extent;
            }
            evicted = true;
            calls += 1;
            let victim = live.swap_remove(places.below(live.len() as u64) as usize);
            let freed = allocator.free(victim);
            debug_assert_eq!(freed, Ok(()), "a live extent can be freed");
        };
        live.push(extent);
        if evicted {
            used += allocator.used() as f64 / mix.capacity as f64;
            samples += 1;
        }
    }
    State {
        measured: Measured::of(start.elapsed(), calls, calls),
        used: used / f64::from(samples.max(1)),
        holes: allocator.free_extent_count(),
    }
}
