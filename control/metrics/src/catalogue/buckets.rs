//! Bucket bounds. Invariant: bounds of Mooncake's families never change.

use crate::family::Buckets;

/// Object sizes in bytes, Mooncake's bounds.
pub static VALUE_SIZES: Buckets = Buckets {
    bounds: &[4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20],
    divisor: 1.0,
    le_digits: Some(6),
};

/// Latencies in microseconds, Mooncake's bounds.
pub static CLIENT_LATENCY_US: Buckets = Buckets {
    bounds: &[
        50, 75, 125, 150, 200, 250, 300, 400, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000,
        15_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000,
        10_000_000, 20_000_000,
    ],
    divisor: 1.0,
    le_digits: Some(6),
};

/// Durations in four buckets for each power of two, as activity pages count them: nanoseconds in
/// the cell, seconds when shown; 1 us to 17 s. So a quantile is known to a quarter of its size, and
/// better.
pub static QUARTER_DURATIONS: Buckets =
    Buckets { bounds: &quarters::<97>(1 << 10), divisor: 1e9, le_digits: None };

/// So many bounds, four for each power of two.
const fn quarters<const N: usize>(first: u64) -> [u64; N] {
    let (mut bounds, mut index) = ([0; N], 0);
    while index < N {
        let power = first << (index / 4);
        bounds[index] = power + power / 4 * (index % 4) as u64;
        index += 1;
    }
    bounds
}

/// Durations by powers of two, as eBPF probes count them: 1 us to 17 s.
pub static LOG2_DURATIONS: Buckets = Buckets {
    bounds: &[
        1 << 10,
        1 << 11,
        1 << 12,
        1 << 13,
        1 << 14,
        1 << 15,
        1 << 16,
        1 << 17,
        1 << 18,
        1 << 19,
        1 << 20,
        1 << 21,
        1 << 22,
        1 << 23,
        1 << 24,
        1 << 25,
        1 << 26,
        1 << 27,
        1 << 28,
        1 << 29,
        1 << 30,
        1 << 31,
        1 << 32,
        1 << 33,
        1 << 34,
    ],
    divisor: 1e9,
    le_digits: None,
};
