//! A contiguous buffer lent by a Python object for the length of a call. Invariant: the exporter is
//! held, so the bytes neither move nor shrink until the value is dropped.

use crate::arguments::type_name;
use perigee_store::api::CallerRange;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::mem::MaybeUninit;

/// Bytes of any object with the buffer protocol, whatever its item type is.
///
/// The view is boxed because exporters may keep pointers into it.
pub(crate) struct ValueBuffer(Box<ffi::Py_buffer>);

// SAFETY: without the interpreter only the address and the length are read, which never change; the
// view is released with the interpreter held.
unsafe impl Send for ValueBuffer {}
// SAFETY: as above, nothing is written through a shared reference.
unsafe impl Sync for ValueBuffer {}

impl ValueBuffer {
    /// Address and length in bytes.
    pub(crate) fn piece(&self) -> CallerRange {
        CallerRange::owned(self.0.buf as usize, usize::try_from(self.0.len).unwrap_or(0))
    }
}

impl<'py> FromPyObject<'_, 'py> for ValueBuffer {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::uninit());
        // SAFETY: the interpreter is held and the object alive; a simple request asks for the bytes
        // alone, and exporters that cannot show them as one run refuse it.
        let lent = unsafe {
            ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_SIMPLE)
        };
        if lent == 0 {
            // SAFETY: a successful request has filled the view.
            return Ok(Self(unsafe { view.assume_init() }));
        }
        let error = PyErr::fetch(object.py());
        Err(if error.is_instance_of::<PyTypeError>(object.py()) {
            PyTypeError::new_err(format!(
                "a bytes-like object is needed, not {}",
                type_name(&object)
            ))
        } else {
            PyTypeError::new_err(format!(
                "the buffer must be contiguous; pass a copy, for example bytes(view) ({error})"
            ))
        })
    }
}

impl Drop for ValueBuffer {
    fn drop(&mut self) {
        // Without an interpreter the buffer cannot be given back.
        let _ = Python::try_attach(|_| {
            // SAFETY: the view was filled by a successful request and is released once, here.
            unsafe { ffi::PyBuffer_Release(&mut *self.0) }
        });
    }
}
