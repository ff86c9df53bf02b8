//! Loads and stores that end with an error where memory has gone: its rights were taken away, it
//! was unmapped, or its file was cut after it was registered. A check before each copy would cost
//! more than a small copy, and would not see what changes during it; the fault itself tells.
//!
//! Invariant: a fault is taken for ours only on a thread that is inside [`guarded`], at an address
//! that was named there. Every other fault goes to who handled it before.
#![expect(unsafe_code, reason = "it recovers from faults")]

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::byte_range::ByteRange;

#[cfg(not(miri))]
mod handler;
#[cfg(all(test, not(miri)))]
mod tests;
#[cfg(not(miri))]
mod trampoline;

/// Memory that a copy or a sum met and that cannot be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Memory at {address:#x} cannot be read or written: it was unmapped, protected or cut after it was named; keep it as it is until the call is over"
)]
pub struct MemoryGone {
    /// The address that was touched.
    pub address: usize,
}

/// What a thread is about to touch, and where it goes on if that fails. The trampoline knows its
/// layout.
#[repr(C)]
struct Guard {
    /// Stack pointer of the trampoline, from its call on.
    stack: usize,
    /// Address of the fault; 0 for none.
    fault: usize,
    ranges: [ByteRange; 2],
}

impl Guard {
    fn covers(&self, address: usize) -> bool {
        self.ranges.iter().any(|range| address.wrapping_sub(range.ptr.addr()) < range.len)
    }
}

/// Work for the trampoline, and what it gives back.
struct Work<F, T> {
    body: Option<F>,
    result: Option<T>,
}

/// Runs `body`; a fault in one of `ranges` ends it at once.
///
/// # Safety
/// `body` is left without cleaning up: it must hold no lock and nothing that is dropped, and call
/// only code of that kind: loads, stores and arithmetic.
pub(crate) unsafe fn guarded<T: Copy, F: FnOnce() -> T>(
    ranges: [ByteRange; 2],
    body: F,
) -> Result<T, MemoryGone> {
    #[cfg(not(miri))]
    handler::stay_installed();
    let mut guard = Guard { stack: 0, fault: 0, ranges };
    let mut work = Work { body: Some(body), result: None };
    let argument = NonNull::from(&mut work).cast::<c_void>();
    // SAFETY: the work is what `run` takes, both outlive the call, and the caller vouches for the
    // body.
    unsafe { call(run::<F, T>, argument, &raw mut guard) };
    work.result.ok_or(MemoryGone { address: guard.fault })
}

/// # Safety
/// `work` is a `Work<F, T>` that is used nowhere else.
unsafe extern "C" fn run<F: FnOnce() -> T, T>(work: NonNull<c_void>) {
    // SAFETY: the caller's promise.
    let work = unsafe { work.cast::<Work<F, T>>().as_mut() };
    if let Some(body) = work.body.take() {
        work.result = Some(body());
    }
}

#[cfg(not(miri))]
use trampoline::perigee_guard_call as call;

/// Without faults: the interpreter has its own.
///
/// # Safety
/// As the trampoline's.
#[cfg(miri)]
unsafe fn call(body: unsafe extern "C" fn(NonNull<c_void>), work: NonNull<c_void>, _: *mut Guard) {
    // SAFETY: the caller's promise.
    unsafe { body(work) };
}
