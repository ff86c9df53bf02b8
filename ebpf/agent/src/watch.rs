//! Who looks: some probes are attached only then.

use crate::limits::WATCH_LENGTH;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

/// Remembers when the agent was read last.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Option<Instant>>);

impl Watch {
    /// The agent is read now; that counts for ten seconds.
    pub fn look(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether the agent was read lately.
    pub fn is_watched(&self) -> bool {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < WATCH_LENGTH)
    }
}
