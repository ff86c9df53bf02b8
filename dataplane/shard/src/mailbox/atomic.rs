//! Atomics of `doze`. Invariant: those of the standard library; `tests/models` has loom's in their
//! place.

pub(super) use std::sync::atomic::*;
