//! The clock. Invariant: only its own word is taken, since other hosts are not asked.

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use crate::limits::DOCTOR_CLOCK_ERROR_US_MAX;

/// Without time service logs and traces of several hosts do not fit together.
pub(super) fn synchronised(host: &HostFacts) -> CheckOutcome {
    match host.clock {
        None => CheckOutcome::Skipped("another host's files are looked at"),
        Some(clock) if clock.is_synchronised => CheckOutcome::fine(),
        Some(_) => CheckOutcome::of([Finding::warning(
            "clock",
            "nothing keeps the clock right: times of several hosts cannot be compared",
            "systemctl enable --now systemd-timesyncd   # or chronyd, where that is installed",
        )]),
    }
}

/// A clock can be kept and still be far off, right after the start of its service.
pub(super) fn error(host: &HostFacts) -> CheckOutcome {
    match host.clock {
        Some(clock) if clock.is_synchronised && clock.error_us > DOCTOR_CLOCK_ERROR_US_MAX => {
            CheckOutcome::of([Finding::warning(
                "clock",
                format!("it may be off by {} ms", clock.error_us / 1000),
                "chronyc makestep, and check that the time servers answer",
            )])
        }
        Some(clock) if clock.is_synchronised => CheckOutcome::fine(),
        _ => CheckOutcome::Skipped("the clock's error is not known"),
    }
}
