//! How links behave at the moment. Invariant: drawn from the seed; sound links break nothing.

use crate::random::Random;
use std::time::Duration;

/// Behaviour of all links.
#[derive(Clone, Debug)]
pub struct LinkConditions {
    /// Shortest and longest way of a packet.
    pub latency: (Duration, Duration),
    /// Time that a byte takes on the wire.
    pub ns_per_kib: u64,
    /// Most bytes that are sent, and that arrive, at once.
    pub chunk_bytes_max: usize,
    /// Bytes between a sender and a receiver who does not read.
    pub window_bytes: usize,
    /// One chunk in so many breaks its connection; 0: none.
    pub reset_odds: u64,
    /// One chunk in so many has a flipped bit; 0: none.
    pub flip_odds: u64,
}

impl LinkConditions {
    /// Links that only differ in speed and in how they cut streams into pieces.
    pub fn sound(random: &Random) -> Self {
        let base = random.length(Duration::from_micros(5), Duration::from_millis(2));
        let chunks = [1460, 9_000, 16 << 10, 64 << 10, 256 << 10];
        let chunk_bytes_max = *random.pick(&chunks);
        Self {
            latency: (base, base * random.between(1, 10) as u32),
            ns_per_kib: random.between(40, 10_000),
            chunk_bytes_max,
            window_bytes: 32 << random.between(10, 16),
            reset_odds: 0,
            flip_odds: 0,
        }
    }

    /// Links that also break connections and, if `flips`, change bits.
    pub fn faulty(random: &Random, flips: bool) -> Self {
        let odds = |least| {
            if random.one_in(2) { random.between(least, least * 20) } else { 0 }
        };
        let mut conditions = Self { reset_odds: odds(50), ..Self::sound(random) };
        if flips {
            conditions.flip_odds = odds(30);
        }
        if random.one_in(3) {
            conditions.window_bytes = conditions.chunk_bytes_max * random.between(1, 8) as usize;
        }
        if random.one_in(3) {
            conditions.ns_per_kib = random.between(10_000, 2_000_000);
        }
        if random.one_in(4) {
            conditions.latency.1 = Duration::from_millis(random.between(50, 900));
        }
        conditions
    }

    pub(crate) fn latency(&self, random: &Random) -> Duration {
        random.length(self.latency.0, self.latency.1)
    }

    /// Time on the wire.
    pub(crate) fn passage(&self, bytes: usize) -> Duration {
        Duration::from_nanos(bytes as u64 * self.ns_per_kib / 1024)
    }

    /// How many bytes go or come at once; now and then a single one.
    pub(crate) fn chunk(&self, random: &Random) -> usize {
        if random.one_in(50) {
            return 1;
        }
        random.between(1 + self.chunk_bytes_max as u64 / 2, self.chunk_bytes_max as u64) as usize
    }

    pub(crate) fn happens(odds: u64, random: &Random) -> bool {
        odds > 0 && random.one_in(odds)
    }
}
