//! Locks that a panic of another thread does not poison. Invariant: what they protect is whole
//! between two statements.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, and goes on with the data of a thread that panicked: every critical section is one
/// update.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
