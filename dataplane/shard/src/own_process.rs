//! A value with threads behind it, which live in the process that made it only.
//! Invariant: after a fork the child's copy is neither used nor dropped.
#![expect(unsafe_code, reason = "a value is dropped in one process and not in the other")]

use std::fmt;
use std::mem::ManuallyDrop;
use std::process;

/// A value that only the process that made it may touch.
pub struct OwnProcess<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> OwnProcess<T> {
    /// A value of this process.
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: process::id() }
    }

    /// Whether this process made it.
    pub fn is_here(&self) -> bool {
        self.process == process::id()
    }

    /// The value, in the process that made it.
    pub fn get(&self) -> Option<&T> {
        self.is_here().then_some(&*self.value)
    }

    /// The value, for a caller that has checked [`OwnProcess::is_here`].
    pub fn value(&self) -> &T {
        debug_assert!(self.is_here(), "the value is the parent's");
        &self.value
    }
}

impl<T> Drop for OwnProcess<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: this is the only place that drops the value, and it is not used after it.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for OwnProcess<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("OwnProcess").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_value_is_used_and_dropped_in_its_process_only() {
        let value = Arc::new(());
        let own = OwnProcess::new(value.clone());
        assert!(own.get().is_some());
        drop(own);
        assert_eq!(Arc::strong_count(&value), 1);
        let of_parent = OwnProcess {
            value: ManuallyDrop::new(value.clone()),
            process: process::id().wrapping_add(1),
        };
        assert!(of_parent.get().is_none());
        drop(of_parent);
        assert_eq!(Arc::strong_count(&value), 2, "the parent's copy is left alone");
    }
}
