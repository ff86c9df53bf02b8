//! Memory of the engine: registered, managed, and bytes at addresses. Invariant: a batch of
//! registrations is done as a whole or not at all.

use super::{EngineClient, FAILED, own_memory};
use crate::arguments::{Count, IntegerList};
use crate::limits::MAX_COPY_BYTES;
use crate::value::ValueBuffer;
use crate::warning;
use perigee_store::api::CallerRange;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

#[pymethods]
impl EngineClient {
    /// Let peers read and write `capacity` bytes at `buffer_addr`, and this engine use them without
    /// a copy. location: "cpu:N", "cuda:N", or "*" to find it out.
    ///
    /// The memory must stay valid until `unregister_memory`. Returns 0, -7 when the range overlaps
    /// a registered one, or another negative code.
    #[pyo3(signature = (buffer_addr, capacity, location = "*"))]
    fn register_memory(
        &self,
        py: Python<'_>,
        buffer_addr: Count,
        capacity: Count,
        location: &str,
    ) -> i32 {
        self.call_code(py, "register_memory()", |engine| {
            // SAFETY: the caller promises that the memory stays valid until it is unregistered or
            // the engine is gone.
            unsafe { engine.register(buffer_addr.0, capacity.0, location) }
        })
    }

    /// Undo `register_memory` of the range that starts at `buffer_addr`. Returns 0, or -3 if none
    /// does.
    fn unregister_memory(&self, py: Python<'_>, buffer_addr: Count) -> i32 {
        self.call_code(py, "unregister_memory()", |engine| engine.unregister(buffer_addr.0))
    }

    /// `register_memory` of all ranges, or of none if one fails. Returns 0 or its code.
    #[pyo3(signature = (buffer_addresses, capacities, location = "*"))]
    fn batch_register_memory(
        &self,
        py: Python<'_>,
        buffer_addresses: IntegerList,
        capacities: IntegerList,
        location: &str,
    ) -> i32 {
        let (addresses, capacities) = (buffer_addresses.0, capacities.0);
        if addresses.len() != capacities.len() {
            let text = "batch_register_memory() failed: as many capacities as addresses are needed";
            warning::engine_error(py, text);
            return FAILED;
        }
        let ranges: Vec<(u64, u64)> = addresses.into_iter().zip(capacities).collect();
        self.call_code(py, "batch_register_memory()", |engine| {
            // SAFETY: as for `register_memory`, for every range.
            unsafe { engine.register_all(&ranges, location) }
        })
    }

    /// `unregister_memory` of all ranges that start at these addresses. Returns 0, or the first
    /// code of a failure, as for an address that is named twice; the others are unregistered all
    /// the same.
    fn batch_unregister_memory(&self, py: Python<'_>, buffer_addresses: IntegerList) -> i32 {
        self.call_code(py, "batch_unregister_memory()", |engine| {
            engine.unregister_all(&buffer_addresses.0)
        })
    }

    /// Returns the address of `length` bytes of registered memory of the engine; 0 on failure.
    fn allocate_managed_buffer(&self, py: Python<'_>, length: Count) -> u64 {
        let address =
            self.call(py, "allocate_managed_buffer()", |engine| engine.allocate_managed(length.0));
        address.unwrap_or(0)
    }

    /// Give memory of `allocate_managed_buffer` back, with the length it was asked for. Returns 0
    /// or a negative code.
    fn free_managed_buffer(&self, py: Python<'_>, buffer_addr: Count, length: Count) -> i32 {
        self.call_code(py, "free_managed_buffer()", |engine| {
            engine.free_managed(buffer_addr.0, length.0)
        })
    }

    /// Copy the first `length` bytes of `buffer` (bytes-like, or text as UTF-8) to an address of
    /// this process. Returns 0, or -1 if that is no writable memory or `buffer` is shorter.
    fn write_bytes_to_buffer(
        &self,
        py: Python<'_>,
        dest_address: Count,
        buffer: &Bound<'_, PyAny>,
        length: Count,
    ) -> PyResult<i32> {
        let lent;
        let whole = if let Ok(text) = buffer.cast::<PyString>() {
            let text = text.to_str()?;
            CallerRange::owned(text.as_ptr().addr(), text.len())
        } else {
            lent = buffer.extract::<ValueBuffer>()?;
            lent.piece()
        };
        if length.0 > MAX_COPY_BYTES.min(whole.bytes as u64) {
            let text = format!(
                "write_bytes_to_buffer() failed: {} bytes asked for, {} given, at most \
                 {MAX_COPY_BYTES}",
                length.0, whole.bytes
            );
            warning::engine_error(py, &text);
            return Ok(FAILED);
        }
        let source = CallerRange::owned(whole.address, length.get());
        Ok(match own_memory::write(dest_address.0, source) {
            Ok(()) => 0,
            Err(error) => {
                warning::engine_error(py, &format!("write_bytes_to_buffer() failed: {error}"));
                FAILED
            }
        })
    }

    /// Returns `length` bytes at an address of this process; b"" if that is no readable memory.
    fn read_bytes_from_buffer<'py>(
        &self,
        py: Python<'py>,
        source_address: Count,
        length: Count,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if length.0 > MAX_COPY_BYTES {
            let text = format!("read_bytes_from_buffer() failed: more than {MAX_COPY_BYTES} bytes");
            warning::engine_error(py, &text);
            return Ok(PyBytes::new(py, b""));
        }
        let mut outcome = Ok(());
        let bytes = PyBytes::new_with(py, length.get(), |bytes| {
            outcome = own_memory::read(source_address.0, bytes);
            Ok(())
        })?;
        if let Err(error) = outcome {
            warning::engine_error(py, &format!("read_bytes_from_buffer() failed: {error}"));
            return Ok(PyBytes::new(py, b""));
        }
        Ok(bytes)
    }
}
