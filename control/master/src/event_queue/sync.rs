//! Atomics and locks of `attention`. Invariant: those of the standard library; `tests/models` has
//! loom's in their place.

pub(super) use std::sync::atomic::{AtomicU8, Ordering};
pub(super) use std::sync::{Mutex, MutexGuard};
