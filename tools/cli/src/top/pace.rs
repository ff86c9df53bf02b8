//! Turns counters into rates.

/// How far two readings are apart.
pub(super) struct ReadingGap {
    pub(super) seconds: f64,
}

impl ReadingGap {
    /// Per second; 0 for a counter that was not there before, no number without two readings.
    pub(super) fn rate(&self, newer: u64, older: Option<u64>) -> f64 {
        match older {
            _ if self.seconds <= 0.0 => f64::NAN,
            Some(older) => newer.saturating_sub(older) as f64 / self.seconds,
            None => 0.0,
        }
    }
}
