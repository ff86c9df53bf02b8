//! A value that one call at a time may have, for as long as it takes to ask a server.
//! Invariant: nobody waits for it longer than his own deadline, whatever the one who has it waits for.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Turn<T> {
    /// `None` while somebody has it.
    value: Mutex<Option<T>>,
    returned: Condvar,
}

/// The value, for the time being.
#[derive(Debug)]
pub(super) struct Taken<'a, T> {
    turn: &'a Turn<T>,
    /// `None` only while it is given back.
    value: Option<T>,
}

impl<T> Turn<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(Some(value)),
            returned: Condvar::new(),
        }
    }

    /// Waits for the value; `None` = it did not come back in time.
    pub(super) fn take(&self, until: Instant) -> Option<Taken<'_, T>> {
        let mut value = self.lock();
        loop {
            if let Some(value) = value.take() {
                return Some(Taken {
                    turn: self,
                    value: Some(value),
                });
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

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
            .as_ref()
            .expect("the value is given back by drop alone")
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
            .as_mut()
            .expect("the value is given back by drop alone")
    }
}

impl<T> Drop for Taken<'_, T> {
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
    fn who_waits_gets_the_value_or_gives_up_at_his_own_deadline() {
        let turn = Turn::new(1);
        let mut mine = turn.take(Instant::now()).unwrap();
        assert!(turn.take(Instant::now()).is_none());
        assert!(
            turn.take(Instant::now() + Duration::from_millis(1))
                .is_none()
        );
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
