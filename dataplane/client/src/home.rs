//! A store or an engine, and what must outlive it. Invariant: memory that it would not let go of
//! stays until it has ended.

use crate::memory::CacheMemory;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// The store or engine, and memory that it would not let go of.
// Fields drop in this order: what uses the memory has ended before it goes.
#[derive(Debug)]
pub(crate) struct Home<T> {
    resident: T,
    kept: Mutex<Vec<CacheMemory>>,
}

impl<T> Home<T> {
    pub(crate) fn new(resident: T) -> Self {
        Self { resident, kept: Mutex::default() }
    }

    pub(crate) fn keep(&self, memory: CacheMemory) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }
}

impl<T> Deref for Home<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.resident
    }
}
