//! Signals that arrive while a call waits without the interpreter's lock: their Python handlers run
//! at the latest each quarter of a second, and what they raise ends the call. Invariant: an
//! exception is raised once, when the call is back.

use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};

thread_local! {
    /// What a handler has raised during the call of this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// Whether the interpreter raises something as soon as the call of this thread has returned.
    static IS_RAISING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the call of this thread is about to end with an exception. It must not run Python code
/// any more, in which that would be raised instead, and lost.
pub(crate) fn is_raising() -> bool {
    IS_RAISING.get()
}

/// Lets pending handlers run; true once one has raised. The interpreter runs them on its main
/// thread only, and must not have begun to end.
pub(crate) fn has_raised() -> bool {
    if RAISED.with_borrow(Option::is_some) {
        return true;
    }
    let raised = Python::attach(|py| py.check_signals()).err();
    let ends = raised.is_some();
    RAISED.set(raised);
    ends
}

/// Hands what was raised to the interpreter, which raises it as soon as the call has returned.
pub(crate) fn raise_after_return() {
    let Some(raised) = RAISED.take() else {
        return;
    };
    let argument = Box::into_raw(Box::new(raised)).cast::<c_void>();
    IS_RAISING.set(true);
    // SAFETY: `raise` takes the box back, and the interpreter calls it at most once.
    if unsafe { ffi::Py_AddPendingCall(Some(raise), argument) } != 0 {
        // Too many calls are pending. An interrupt needs no place among them.
        IS_RAISING.set(false);
        // SAFETY: the interpreter has not taken the box, and it runs.
        unsafe {
            drop(Box::from_raw(argument.cast::<PyErr>()));
            ffi::PyErr_SetInterrupt();
        }
    }
}

/// What a handler has raised in Python code of ours that could not pass it on is raised once more.
pub(crate) fn interrupt_again() {
    // SAFETY: the interpreter runs, and the call only marks a signal as pending.
    unsafe { ffi::PyErr_SetInterrupt() };
}

extern "C" fn raise(argument: *mut c_void) -> c_int {
    // SAFETY: the argument is the box of `raise_after_return`, and this is called once.
    let raised = unsafe { Box::from_raw(argument.cast::<PyErr>()) };
    IS_RAISING.set(false);
    Python::attach(|py| raised.restore(py));
    -1
}
