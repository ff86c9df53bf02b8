//! The space allocator in the steady state of a full range, with random eviction.
//! Invariant: sizes and victims come from fixed seeds; the time is that of the whole loop, generator included.

use std::time::Instant;

use perigee_allocator::{Extent, OffsetAllocator};

use crate::report::{Cell, Figure, Goal, Report};
use perigee_runner::sample::Places;

const GIB: u64 = 1 << 30;

/// Options of `allocator`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Allocations per row; fewer would not fill the range.
    #[arg(long, default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(200_000..))]
    allocations: u32,
}

/// A mix of sizes with the utilisation wanted of it.
struct Mix {
    name: &'static str,
    capacity: u64,
    wanted: f64,
    bytes: fn(&mut Places) -> u64,
}

const MIXES: [Mix; 6] = [
    Mix {
        name: "1 MiB + 17",
        capacity: 16 * GIB,
        wanted: 0.99,
        bytes: |_| (1 << 20) + 17,
    },
    Mix {
        name: "64 KiB + 64",
        capacity: 4 * GIB,
        wanted: 0.99,
        bytes: |_| (64 << 10) + 64,
    },
    Mix {
        name: "2.5 MiB + 512",
        capacity: 16 * GIB,
        wanted: 0.99,
        bytes: |_| (5 << 19) + 512,
    },
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

/// Measures.
pub(crate) fn run(options: &Options) -> Report {
    let mut rows = Vec::new();
    let (mut slowest, mut margin) = (0.0_f64, f64::MAX);
    for mix in MIXES {
        let (ns, used, holes) = measure(&mix, options.allocations);
        slowest = slowest.max(ns);
        margin = margin.min(used - mix.wanted);
        rows.push(vec![
            Cell::Text(mix.name.to_owned()),
            Cell::Number(ns, 0),
            Cell::Number(used, 4),
            Cell::Number(mix.wanted, 2),
            Cell::Number(holes as f64, 0),
        ]);
    }
    let figure = |name: &str, value, unit, goal| Figure {
        name: name.to_owned(),
        value,
        unit,
        goal: Some(goal),
    };
    Report {
        figures: vec![
            figure(
                "slowest mix, per allocation or free",
                slowest,
                "ns",
                Goal::AtMost(300.0),
            ),
            figure(
                "least utilisation above what is wanted",
                margin,
                "",
                Goal::AtLeast(0.0),
            ),
        ],
        columns: &["sizes", "ns per call", "used", "wanted", "holes"],
        rows,
        notes: Vec::new(),
    }
}

/// Nanoseconds per call, mean share in use once full, and free extents at the end.
fn measure(mix: &Mix, allocations: u32) -> (f64, f64, usize) {
    let mut places = Places::new(7);
    let mut allocator = OffsetAllocator::new(mix.capacity);
    let mut live: Vec<Extent> = Vec::new();
    let (mut calls, mut used, mut samples) = (0_u32, 0.0, 0_u32);
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
    let ns = start.elapsed().as_nanos() as f64 / f64::from(calls);
    (
        ns,
        used / f64::from(samples.max(1)),
        allocator.free_extent_count(),
    )
}
