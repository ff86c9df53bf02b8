//! A mutex that is held while a server is asked. Invariant: no caller waits for it beyond its own
//! deadline, whatever the holder waits for.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug)]
pub(super) struct TimedMutex<T> {
    /// `None` while it is held.
    value: Mutex<Option<T>>,
    returned: Condvar,
}

/// The value, for the time being.
#[derive(Debug)]
pub(super) struct TimedGuard<'a, T> {
    turn: &'a TimedMutex<T>,
    /// `None` only while it is given back.
    value: Option<T>,
}

impl<T> TimedMutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Mutex::new(Some(value)), returned: Condvar::new() }
    }

    /// Waits for the value; `None` = it did not come back in time.
    pub(super) fn take(&self, until: Instant) -> Option<TimedGuard<'_, T>> {
        let mut value = self.lock();
        loop {
            if let Some(value) = value.take() {
                return Some(TimedGuard { turn: self, value: Some(value) });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let woken = self.returned.wait_timeout(value, left);
            value = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for TimedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("the value is given back by drop alone")
    }
}

impl<T> DerefMut for TimedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("the value is given back by drop alone")
    }
}

impl<T> Drop for TimedGuard<'_, T> {
    fn drop(&mut self) {
        *self.turn.lock() = self.value.take();
        self.turn.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_waiter_gets_the_value_or_gives_up_at_its_own_deadline() {
        let turn = TimedMutex::new(1);
        let mut mine = turn.take(Instant::now()).unwrap();
        assert!(turn.take(Instant::now()).is_none());
        assert!(turn.take(Instant::now() + Duration::from_millis(1)).is_none());
        *mine = 2;
        let found = std::thread::scope(|scope| {
            let waits =
                scope.spawn(|| *turn.take(Instant::now() + Duration::from_secs(60)).unwrap());
            drop(mine);
            waits.join().unwrap()
        });
        assert_eq!(found, 2);
    }
}
