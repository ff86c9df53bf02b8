//! How often damage is said. Invariant: what is not said is counted.

use crate::limits::DAMAGE_PAUSE;
use std::cell::Cell;
use std::time::Duration;

/// When damage was said last, and how often it was not said since.
#[derive(Debug, Default)]
pub(super) struct DamageLog {
    said: Cell<Option<Duration>>,
    unsaid: Cell<u64>,
}

impl DamageLog {
    /// How many lines were left out before this one; none if this one is, too.
    pub(super) fn admit(&self, now: Duration) -> Option<u64> {
        let is_soon = self.said.get().is_some_and(|said| now.saturating_sub(said) < DAMAGE_PAUSE);
        if is_soon {
            self.unsaid.set(self.unsaid.get() + 1);
            return None;
        }
        self.said.set(Some(now));
        Some(self.unsaid.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_damage_is_said_seldom_and_none_of_it_is_forgotten() {
        let (log, now) = (DamageLog::default(), Duration::from_secs(50));
        assert_eq!(log.admit(now), Some(0));
        assert_eq!((log.admit(now), log.admit(now + DAMAGE_PAUSE / 2)), (None, None));
        assert_eq!(log.admit(now + DAMAGE_PAUSE), Some(2));
        assert_eq!(log.admit(now + DAMAGE_PAUSE * 2), Some(0));
    }
}
