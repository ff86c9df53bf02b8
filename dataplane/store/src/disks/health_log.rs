//! Lines in the log about the health of a disk.
//! Invariant: one when it or the cause changes, and at most one a minute while only numbers do.

use perigee_schemas::{DiskHealth, Identity};
use perigee_ssd::DiskState;
use std::time::{Duration, Instant};

/// Pause between two lines about the same health: a reason may count seconds.
const PAUSE: Duration = Duration::from_secs(60);

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct HealthLog {
    state: DiskState,
    said: Option<Instant>,
}

impl HealthLog {
    /// Logs a state that is worth a line.
    pub(super) fn note(&mut self, disk: Identity, state: &DiskState, now: Instant) {
        if !self.is_news(state, now) {
            return;
        }
        let (is, reason) = (state.health.name(), &state.reason);
        match state.health {
            DiskHealth::Healthy => tracing::info!(%disk, "A disk is healthy again"),
            _ => tracing::warn!(%disk, is, reason, "A disk is not healthy"),
        }
        (self.state, self.said) = (state.clone(), Some(now));
        debug_assert!(!self.is_news(state, now), "what was said is not said again at once");
    }

    fn is_news(&self, state: &DiskState, now: Instant) -> bool {
        let is_old = self.said.is_none_or(|said| now.saturating_duration_since(said) >= PAUSE);
        let is_other = state.health != self.state.health || is_other_cause(state, &self.state);
        is_other || (state.reason != self.state.reason && is_old)
    }
}

/// Whether reasons differ in more than numbers.
fn is_other_cause(state: &DiskState, other: &DiskState) -> bool {
    let words = |reason: &str| reason.replace(|c: char| c.is_ascii_digit(), "");
    words(&state.reason) != words(&other.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_health_gives_a_line_and_a_changing_reason_one_a_minute() {
        let (mut log, mut now, mut lines) = (HealthLog::default(), Instant::now(), 0);
        let mut look = |health, reason: String, now| {
            let state = DiskState { health, reason };
            lines += u32::from(log.is_news(&state, now));
            log.note(Identity(7), &state, now);
            lines
        };
        assert_eq!(look(DiskHealth::Healthy, String::new(), now), 0);
        for second in 0..119 {
            look(DiskHealth::Hung, format!("more than {second} s"), now);
            now += Duration::from_secs(1);
        }
        assert_eq!(look(DiskHealth::Hung, "more than 119 s".to_owned(), now), 2);
        assert_eq!(look(DiskHealth::Slow, "more than 1 s".to_owned(), now), 3);
        assert_eq!(look(DiskHealth::Healthy, String::new(), now), 4);
        assert_eq!(look(DiskHealth::ReadOnly, "writes fail".to_owned(), now), 5);
        assert_eq!(look(DiskHealth::ReadOnly, "its log has ended".to_owned(), now), 6);
    }
}
