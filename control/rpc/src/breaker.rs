//! Fails calls at once for a short while after the master timed out, so that an engine is not
//! slowed by every call.

use crate::limits::BREAKER_OPEN;
use std::sync::Mutex;
use std::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    open_until: Mutex<Option<Instant>>,
}

impl Breaker {
    pub(crate) fn is_open(&self) -> bool {
        let mut until = self.open_until.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match *until {
            Some(end) if Instant::now() < end => true,
            _ => {
                *until = None;
                false
            }
        }
    }

    pub(crate) fn trip(&self) {
        let mut until = self.open_until.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *until = Some(Instant::now() + BREAKER_OPEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_breaker_lets_calls_through_and_a_tripped_one_does_not() {
        let breaker = Breaker::default();
        assert!(!breaker.is_open());
        breaker.trip();
        assert!(breaker.is_open());
    }
}
