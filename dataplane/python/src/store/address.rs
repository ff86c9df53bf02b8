//! Memory that callers name by address, for the tensor calls: where it is, and its bytes.
//! Invariant: the CPU touches no address of an accelerator.

use super::StoreClient;
use crate::arguments::{Count, piece};
use perigee_schemas::Status;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

#[pymethods]
impl StoreClient {
    /// Returns the number of the accelerator that has `size` bytes at an address; None for memory
    /// of this host; -1 if the store is not open, because then no driver says whose the memory is.
    fn _device_of(&self, py: Python<'_>, buffer_ptr: Count, size: Count) -> Option<i64> {
        self.call(
            py,
            || Some(-1),
            |session| {
                let device = session.store().device_of(&piece(buffer_ptr, size).ok()?);
                device.map(i64::from)
            },
        )
    }

    /// Returns the bytes at an address of this host or of an accelerator; None if they cannot be
    /// read.
    fn _load(&self, py: Python<'_>, buffer_ptr: Count, size: Count) -> Option<Py<PyBytes>> {
        let read = self.call(
            py,
            || None,
            |session| {
                let piece = piece(buffer_ptr, size).ok()?;
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(piece.bytes).ok()?;
                bytes.resize(piece.bytes, 0);
                // SAFETY: the buffer has room for the piece, and its address is known here only.
                let loaded = unsafe { session.store().load(&piece, bytes.as_mut_ptr()) };
                loaded.ok().map(|()| bytes)
            },
        );
        read.map(|bytes| PyBytes::new(py, &bytes).unbind())
    }

    /// Writes bytes to an address of this host or of an accelerator. Returns 0, or a negative code.
    fn _save(&self, py: Python<'_>, buffer_ptr: Count, data: &[u8]) -> i32 {
        self.call_status(py, |session| {
            let piece = piece(buffer_ptr, Count(data.len() as u64))?;
            // SAFETY: the caller keeps the data, and does not use the memory elsewhere during the
            // call.
            unsafe { session.store().save(&piece, data.as_ptr()) }?;
            Ok(Status::Ok)
        })
    }
}
