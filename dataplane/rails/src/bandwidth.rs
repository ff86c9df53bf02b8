//! How fast a rail really is: a moving average over completions, taken only while the rail was
//! busy.
//!
//! The estimate is a ratio of two decaying sums, bytes moved and time busy, so that many
//! completions at one moment and one completion after a long wait count alike.

use crate::limits::{BANDWIDTH_MEMORY, BANDWIDTH_MIN, BANDWIDTH_RELAX, SAMPLE_BYTES_MIN};
use std::time::Duration;

/// Measured bandwidth and bytes in flight of one rail or one queue pair.
#[derive(Clone, Debug)]
pub(crate) struct Bandwidth {
    nominal: f64,
    bytes: f64,
    busy: f64,
    in_flight: u64,
    /// When the present busy interval began: the last completion, or the post that ended idleness.
    since: Duration,
    began_with: u64,
    /// Whether the interval that ended last was a sample: what completes at the same moment belongs
    /// to it.
    was_sample: bool,
    idle_since: Duration,
}

impl Bandwidth {
    /// A rail that has not been used, with the speed its port claims in bytes per second.
    pub(crate) fn new(nominal: f64) -> Self {
        let nominal = nominal.max(BANDWIDTH_MIN);
        let busy = BANDWIDTH_MEMORY.as_secs_f64() / 16.0;
        Self {
            nominal,
            bytes: nominal * busy,
            busy,
            in_flight: 0,
            since: Duration::ZERO,
            began_with: 0,
            was_sample: false,
            idle_since: Duration::ZERO,
        }
    }

    /// An idle queue pair on the same rail, which begins with what was measured so far.
    pub(crate) fn successor(&self, now: Duration) -> Self {
        let measured = self.bytes / self.busy.max(1e-9);
        let mut successor = Self::new(self.nominal);
        successor.bytes = measured * successor.busy;
        successor.idle_since = now;
        successor
    }

    /// How long what is in flight should take at the measured speed.
    pub(crate) fn time_in_flight(&self) -> Duration {
        let speed = (self.bytes / self.busy.max(1e-9)).max(BANDWIDTH_MIN);
        Duration::from_secs_f64(self.in_flight as f64 / speed)
    }

    /// Bytes posted and not yet ended.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Bytes were posted.
    pub(crate) fn posted(&mut self, now: Duration, bytes: u64) {
        if self.in_flight == 0 {
            self.relax(now.saturating_sub(self.idle_since));
            self.since = now;
            self.began_with = 0;
        }
        if now == self.since {
            self.began_with += bytes;
        }
        self.in_flight += bytes;
    }

    /// Bytes arrived: the interval since the last completion is a sample if the rail had enough to
    /// do.
    pub(crate) fn completed(&mut self, now: Duration, bytes: u64) {
        let interval = now.saturating_sub(self.since).as_secs_f64();
        if interval > 0.0 {
            self.was_sample = self.began_with >= SAMPLE_BYTES_MIN;
        }
        if self.was_sample {
            let keep = (-interval / BANDWIDTH_MEMORY.as_secs_f64()).exp();
            self.bytes = self.bytes * keep + bytes as f64;
            self.busy = self.busy * keep + interval;
            debug_assert!(self.bytes.is_finite() && self.busy.is_finite());
        }
        self.ended(now, bytes);
    }

    /// Bytes came to nothing: they say nothing about speed.
    pub(crate) fn failed(&mut self, now: Duration, bytes: u64) {
        self.ended(now, bytes);
    }

    /// Present estimate in bytes per second. A rail that owes completions for longer than it should
    /// is taken to be as slow as that makes it.
    pub(crate) fn bytes_per_second(&self, now: Duration) -> f64 {
        let measured = (self.bytes / self.busy.max(1e-9)).max(BANDWIDTH_MIN);
        let open = now.saturating_sub(self.since).as_secs_f64();
        if self.in_flight >= SAMPLE_BYTES_MIN && open > 0.0 {
            let ceiling = self.in_flight as f64 / open;
            return measured.min(ceiling.max(BANDWIDTH_MIN));
        }
        measured
    }

    fn ended(&mut self, now: Duration, bytes: u64) {
        debug_assert!(bytes <= self.in_flight, "what ends was in flight");
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.since = now;
        self.began_with = self.in_flight;
        if self.in_flight == 0 {
            self.idle_since = now;
        }
    }

    /// What was measured long ago may no longer hold: the estimate drifts back to the port's speed.
    fn relax(&mut self, idle: Duration) {
        let keep = (-idle.as_secs_f64() / BANDWIDTH_RELAX.as_secs_f64()).exp();
        self.bytes = self.bytes * keep + self.nominal * self.busy * (1.0 - keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLICE: u64 = 256 << 10;

    /// Keeps four slices in flight on a rail of `speed` bytes per second for `length`.
    fn load(bandwidth: &mut Bandwidth, start: Duration, speed: f64, length: Duration) -> Duration {
        let each = Duration::from_secs_f64(SLICE as f64 / speed);
        let mut now = start;
        for _ in 0..4 {
            bandwidth.posted(now, SLICE);
        }
        while now < start + length {
            now += each;
            bandwidth.completed(now, SLICE);
            bandwidth.posted(now, SLICE);
        }
        for _ in 0..4 {
            now += each;
            bandwidth.completed(now, SLICE);
        }
        now
    }

    fn is_near(bandwidth: &Bandwidth, now: Duration, speed: f64) -> bool {
        let ratio = bandwidth.bytes_per_second(now) / speed;
        (0.9..1.1).contains(&ratio)
    }

    #[test]
    fn the_estimate_follows_a_rail_that_is_throttled_and_released() {
        let mut bandwidth = Bandwidth::new(12.5e9);
        let second = Duration::from_secs(1);
        let now = load(&mut bandwidth, second, 1e9, Duration::from_millis(200));
        assert!(is_near(&bandwidth, now, 1e9));
        let now = load(&mut bandwidth, now, 0.25e9, Duration::from_millis(200));
        assert!(is_near(&bandwidth, now, 0.25e9));
        let now = load(&mut bandwidth, now, 1e9, Duration::from_millis(200));
        assert!(is_near(&bandwidth, now, 1e9));
    }

    #[test]
    fn small_operations_one_at_a_time_do_not_make_a_rail_look_slow() {
        let mut bandwidth = Bandwidth::new(1e9);
        let mut now = Duration::from_secs(1);
        for _ in 0..1000 {
            bandwidth.posted(now, 64);
            now += Duration::from_micros(20);
            bandwidth.completed(now, 64);
        }
        assert!(is_near(&bandwidth, now, 1e9));
    }

    #[test]
    fn small_operations_that_end_together_do_not_make_a_rail_look_fast() {
        let mut bandwidth = Bandwidth::new(1e9);
        let mut now = Duration::from_secs(1);
        for _ in 0..10_000 {
            bandwidth.posted(now, 4096);
            bandwidth.posted(now, 4096);
            now += Duration::from_micros(20);
            bandwidth.completed(now, 4096);
            bandwidth.completed(now, 4096);
        }
        assert!(is_near(&bandwidth, now, 1e9));
    }

    #[test]
    fn a_silent_rail_looks_slower_the_longer_it_owes() {
        let mut bandwidth = Bandwidth::new(1e9);
        bandwidth.posted(Duration::from_secs(1), 1 << 20);
        let after = |ms: u64| bandwidth.bytes_per_second(Duration::from_millis(1000 + ms));
        assert!(after(100) < 2e7 && after(1000) < after(100));
    }

    #[test]
    fn an_idle_rail_is_given_another_chance() {
        let mut bandwidth = Bandwidth::new(1e9);
        let now = load(&mut bandwidth, Duration::from_secs(1), 1e8, Duration::from_millis(300));
        let later = now + Duration::from_secs(20);
        bandwidth.posted(later, 64);
        assert!(is_near(&bandwidth, later, 1e9));
    }

    proptest! {
        #[test]
        fn bytes_in_flight_never_go_astray(
            steps in proptest::collection::vec((0u8..3, 1u64..1_000_000), 1..200),
        ) {
            let mut bandwidth = Bandwidth::new(1e9);
            let (mut flying, mut now) = (Vec::<u64>::new(), Duration::from_secs(1));
            for (kind, size) in steps {
                now += Duration::from_micros(size % 100);
                match (kind, flying.pop()) {
                    (1, Some(bytes)) => bandwidth.completed(now, bytes),
                    (2, Some(bytes)) => bandwidth.failed(now, bytes),
                    (_, last) => {
                        flying.extend(last);
                        bandwidth.posted(now, size);
                        flying.push(size);
                    }
                }
                prop_assert_eq!(bandwidth.in_flight(), flying.iter().sum::<u64>());
                let speed = bandwidth.bytes_per_second(now);
                prop_assert!(speed.is_finite() && speed >= BANDWIDTH_MIN);
            }
        }
    }
}
