//! What C holds in place of our objects: numbers that look like pointers.
//! Invariant: a number is given out once, so that a freed handle never means another object.

use crate::argument::ArgumentError;
use perigee_shard::OwnProcess;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::process;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A handle as C has it: the number of an object. It points to nothing.
pub type Handle = *mut c_void;

/// Distance of two numbers: they look like pointers to what is aligned.
const STEP: usize = 16;

/// The open objects of one library.
pub struct Handles<T> {
    /// Name of this kind of handle in messages.
    name: &'static str,
    next: AtomicUsize,
    /// The process that made the newest one.
    process: AtomicU32,
    open: LazyLock<RwLock<Table<T>>>,
}

type Table<T> = HashMap<usize, Arc<OwnProcess<T>>>;

impl<T> Handles<T> {
    /// No objects yet. Libraries of one process choose different `first` numbers, so that one does
    /// not take the other's handles for its own.
    pub const fn new(name: &'static str, first: usize) -> Self {
        Self {
            name,
            next: AtomicUsize::new(first),
            process: AtomicU32::new(0),
            open: LazyLock::new(RwLock::default),
        }
    }

    /// Keeps an object until its handle is freed or the process exits.
    pub fn insert(&self, object: T) -> Handle {
        self.process.store(process::id(), Ordering::Relaxed);
        let number = self.next.fetch_add(STEP, Ordering::Relaxed);
        self.write().insert(number, Arc::new(OwnProcess::new(object)));
        std::ptr::without_provenance_mut(number)
    }

    /// The object of a handle.
    ///
    /// # Errors
    /// The handle is null, was freed, was never given out by this table, or was made by the parent
    /// of this process.
    pub fn find(&self, handle: Handle) -> Result<Arc<OwnProcess<T>>, ArgumentError> {
        if handle.is_null() {
            return Err(ArgumentError::Null(self.name));
        }
        let found = self.read().get(&handle.addr()).cloned();
        let found = found.filter(|object| object.is_here());
        found.ok_or(ArgumentError::Handle(self.name))
    }

    /// Runs `work` with the object of a handle.
    ///
    /// # Errors
    /// As [`Handles::find`].
    pub fn with<R>(&self, handle: Handle, work: impl FnOnce(&T) -> R) -> Result<R, ArgumentError> {
        let object = self.find(handle)?;
        object.get().map(work).ok_or(ArgumentError::Handle(self.name))
    }

    /// Frees a handle. The object ends when the calls that use it have returned.
    ///
    /// # Errors
    /// As [`Handles::find`].
    pub fn free(&self, handle: Handle) -> Result<(), ArgumentError> {
        self.find(handle)?;
        let freed = self.write().remove(&handle.addr());
        freed.map(drop).ok_or(ArgumentError::Handle(self.name))
    }

    /// Frees all handles; for the exit of the process. A forked process that made none leaves the
    /// table alone: a thread that is gone may have locked it.
    pub fn free_all(&self) {
        if self.process.load(Ordering::Relaxed) == process::id() {
            let all = std::mem::take(&mut *self.write());
            drop(all);
        }
    }

    /// Has `free_all` called by `exit()` and at the end of `main()`.
    pub fn at_exit(&self, free_all: extern "C" fn()) {
        // SAFETY: the function is never unloaded: the libraries are linked so.
        let code: c_int = unsafe { libc::atexit(free_all) };
        if code != 0 {
            tracing::warn!("{}: free handles before the process exits", self.name);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Table<T>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table<T>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_never_means_another_object() {
        let handles = Handles::new("store", 0x1000);
        let first = handles.insert(1);
        assert_eq!(handles.with(first, |object| *object), Ok(1));
        handles.free(first).unwrap();
        let second = handles.insert(2);
        assert_eq!(handles.with(first, |object| *object), Err(ArgumentError::Handle("store")));
        assert_eq!(handles.free(first), Err(ArgumentError::Handle("store")));
        assert_eq!(handles.with(second, |object| *object), Ok(2));
    }

    #[test]
    fn null_and_foreign_handles_are_errors() {
        let (ours, theirs) = (Handles::new("store", 0x1000), Handles::new("engine", 0x9000));
        let foreign = theirs.insert(1);
        ours.insert(1);
        assert_eq!(ours.with(foreign, |_| ()), Err(ArgumentError::Handle("store")));
        let null = std::ptr::null_mut();
        assert_eq!(ours.with(null, |_| ()), Err(ArgumentError::Null("store")));
    }

    #[test]
    fn an_object_outlives_the_calls_that_use_it() {
        let handles = Handles::new("store", 0x1000);
        let object = Arc::new(());
        let handle = handles.insert(object.clone());
        handles
            .with(handle, |held| {
                handles.free(handle).unwrap();
                assert_eq!(Arc::strong_count(held), 2);
            })
            .unwrap();
        assert_eq!(Arc::strong_count(&object), 1);
    }
}
