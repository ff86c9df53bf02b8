//! Time per allocation and per free in the steady state of a full range, evicting at random.
//! Invariant: the mix of sizes and the order of frees come from fixed seeds, so runs can be compared.
//!
//! Run with `cargo run --release -p perigee-allocator --example rate`.
#![expect(
    clippy::print_stdout,
    reason = "printing figures is what this program is for"
)]

use std::time::{Duration, Instant};

use perigee_allocator::{Extent, OffsetAllocator};

const ROUNDS: usize = 1_000_000;

struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

fn main() {
    let log_uniform = |random: &mut Xorshift| {
        let octave = random.below(14);
        ((4096 << octave) + random.below(4096 << octave)).next_multiple_of(16)
    };
    let pair = |random: &mut Xorshift| [3_271_600, 658_448][random.below(2) as usize];
    measure("1 MiB + 80, 16 GiB", 16 << 30, |_| (1 << 20) + 80);
    measure("64 KiB + 64, 16 GiB", 16 << 30, |_| (64 << 10) + 64);
    measure("3.12 MB and 643 KiB, 64 GiB", 64 << 30, pair);
    measure("4 KiB to 64 MiB, 64 GiB", 64 << 30, log_uniform);
}

fn measure(label: &str, capacity: u64, mut bytes: impl FnMut(&mut Xorshift) -> u64) {
    let mut random = Xorshift(7);
    let mut allocator = OffsetAllocator::new(capacity);
    let mut live: Vec<Extent> = Vec::new();
    let (mut alloc_time, mut free_time) = (Duration::ZERO, Duration::ZERO);
    let (mut allocs, mut frees) = (0_u32, 0_u32);
    let mut used = 0.0;
    for _ in 0..ROUNDS {
        let wanted = bytes(&mut random);
        loop {
            let start = Instant::now();
            let extent = allocator.alloc(wanted);
            alloc_time += start.elapsed();
            allocs += 1;
            if let Some(extent) = extent {
                live.push(extent);
                break;
            }
            used += allocator.used() as f64 / capacity as f64;
            let victim = live.swap_remove(random.below(live.len() as u64) as usize);
            let start = Instant::now();
            let freed = allocator.free(victim);
            free_time += start.elapsed();
            frees += 1;
            assert_eq!(freed, Ok(()));
        }
    }
    let holes = allocator.free_extent_count();
    let used = used / f64::from(frees.max(1));
    println!(
        "{label}: alloc {:.0} ns, free {:.0} ns (timer included), {holes} holes, {used:.3} used",
        alloc_time.as_nanos() as f64 / f64::from(allocs),
        free_time.as_nanos() as f64 / f64::from(frees.max(1)),
    );
}
