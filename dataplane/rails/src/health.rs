//! Whether a rail may carry load: errors in a window, cool-down, one probe, healthy again.
//!
//! While it cools down nothing is sent; afterwards one small proving write decides. Each failed
//! probe doubles the next cool-down up to a bound, and time spent healthy forgets it.

use crate::limits::{COOL_DOWN_MAX, COOL_DOWN_MIN, ERROR_WINDOW};
use std::time::Duration;

/// Where a rail stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthState {
    /// Carries load.
    Healthy,
    /// Carries nothing until then.
    Cooling {
        /// When it may be probed.
        until: Duration,
    },
    /// One proving write is on its way.
    Probing,
}

/// Health of one rail, or of one pair of rails.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    standing: HealthState,
    errors_max: u32,
    errors: u32,
    window_began: Duration,
    cool_down: Duration,
    healthy_since: Duration,
}

impl Health {
    /// A healthy rail that cools down after `errors_max` errors within the window.
    pub(crate) fn new(errors_max: u32) -> Self {
        Self {
            standing: HealthState::Healthy,
            errors_max: errors_max.max(1),
            errors: 0,
            window_began: Duration::ZERO,
            cool_down: COOL_DOWN_MIN,
            healthy_since: Duration::ZERO,
        }
    }

    /// Where it stands.
    pub(crate) fn standing(&self) -> HealthState {
        self.standing
    }

    /// An error on the rail; true if it begins to cool down now.
    pub(crate) fn failed(&mut self, now: Duration) -> bool {
        match self.standing {
            HealthState::Cooling { .. } => false,
            HealthState::Probing => {
                self.cool_down = (self.cool_down * 2).min(COOL_DOWN_MAX);
                self.cool(now);
                true
            }
            HealthState::Healthy => self.count(now),
        }
    }

    /// True when the cool-down is over: the caller now sends one proving write.
    pub(crate) fn begin_probe(&mut self, now: Duration) -> bool {
        match self.standing {
            HealthState::Cooling { until } if now >= until => {
                self.standing = HealthState::Probing;
                true
            }
            _ => false,
        }
    }

    /// The proving write came through.
    pub(crate) fn proven(&mut self, now: Duration) {
        if self.standing != HealthState::Healthy {
            self.standing = HealthState::Healthy;
            self.healthy_since = now;
            self.errors = 0;
        }
    }

    fn count(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.window_began) > ERROR_WINDOW {
            self.window_began = now;
            self.errors = 0;
        }
        self.errors += 1;
        if self.errors < self.errors_max {
            return false;
        }
        // A rail that fails again soon after a cool-down has not recovered.
        let healthy_for = now.saturating_sub(self.healthy_since);
        if self.healthy_since > Duration::ZERO && healthy_for < self.cool_down * 2 {
            self.cool_down = (self.cool_down * 2).min(COOL_DOWN_MAX);
        } else {
            self.cool_down = COOL_DOWN_MIN;
        }
        self.cool(now);
        true
    }

    fn cool(&mut self, now: Duration) {
        self.standing = HealthState::Cooling { until: now + self.cool_down };
        self.errors = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: Duration = Duration::from_secs(100);

    #[test]
    fn errors_within_the_window_start_a_cool_down_and_scattered_ones_do_not() {
        let mut health = Health::new(3);
        for step in 0..10 {
            assert!(!health.failed(START + ERROR_WINDOW * 2 * step));
        }
        let now = START + ERROR_WINDOW * 40;
        assert!(!health.failed(now));
        assert!(!health.failed(now));
        assert!(health.failed(now));
        assert!(health.standing() != HealthState::Healthy);
    }

    #[test]
    fn failed_probes_double_the_cool_down_up_to_the_bound() {
        let mut health = Health::new(1);
        let mut now = START;
        health.failed(now);
        let mut expected = COOL_DOWN_MIN;
        for _ in 0..20 {
            assert_eq!(health.standing(), HealthState::Cooling { until: now + expected });
            assert!(!health.begin_probe(now + expected / 2));
            now += expected;
            assert!(health.begin_probe(now));
            assert!(!health.begin_probe(now), "one probe at a time");
            assert!(health.failed(now));
            expected = (expected * 2).min(COOL_DOWN_MAX);
        }
        assert_eq!(expected, COOL_DOWN_MAX);
    }

    #[test]
    fn a_proven_rail_carries_load_and_its_past_is_forgotten_with_time() {
        let mut health = Health::new(1);
        health.failed(START);
        assert!(health.begin_probe(START + COOL_DOWN_MIN));
        let now = START + COOL_DOWN_MIN;
        health.proven(now);
        assert!(health.standing() == HealthState::Healthy);
        health.failed(now + Duration::from_millis(1));
        let until = now + Duration::from_millis(1) + COOL_DOWN_MIN * 2;
        assert_eq!(health.standing(), HealthState::Cooling { until });
        assert!(health.begin_probe(until));
        health.proven(until);
        let later = until + COOL_DOWN_MAX * 3;
        health.failed(later);
        let until = later + COOL_DOWN_MIN;
        assert_eq!(health.standing(), HealthState::Cooling { until });
    }

    proptest! {
        #[test]
        fn a_rail_out_of_service_always_comes_up_for_a_probe_within_the_bound(
            steps in proptest::collection::vec((0u8..3, 0u64..2000), 1..100),
        ) {
            let mut health = Health::new(2);
            let mut now = START;
            for (step, wait_ms) in steps {
                now += Duration::from_millis(wait_ms);
                match step {
                    0 => drop(health.failed(now)),
                    1 => drop(health.begin_probe(now)),
                    _ if health.standing() == HealthState::Probing => health.proven(now),
                    _ => {}
                }
                if let HealthState::Cooling { until } = health.standing() {
                    prop_assert!(until <= now + COOL_DOWN_MAX);
                }
            }
            let later = now + COOL_DOWN_MAX;
            let stuck = matches!(health.standing(), HealthState::Cooling { .. });
            prop_assert!(!stuck || health.begin_probe(later));
        }
    }
}
