//! Transfers ordered by a CUDA stream, which this build does not have. Invariant: each of them says
//! so in the log and in its code, and moves nothing.

use super::EngineClient;
use crate::arguments::{Count, IntegerList};
use crate::warning;
use pyo3::prelude::*;

/// Code of what this build does not have.
const NOT_IMPLEMENTED: i32 = -303;

fn without_stream(py: Python<'_>, what: &str) -> i32 {
    let text = format!(
        "{what} failed: this build does not order transfers by CUDA streams; synchronize the \
         stream and call {} instead",
        what.replace("_on_cuda", "").replace("transfer_", "transfer_sync_")
    );
    warning::engine_error(py, &text);
    NOT_IMPLEMENTED
}

#[pymethods]
impl EngineClient {
    /// Not there: transfers ordered by a CUDA stream. Returns -303 and moves nothing.
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length,
        stream_ptr = Count(0)))]
    #[expect(unused_variables, reason = "the signature that clients call")]
    fn transfer_write_on_cuda(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffer: Count,
        peer_buffer_address: Count,
        length: Count,
        stream_ptr: Count,
    ) -> i32 {
        without_stream(py, "transfer_write_on_cuda")
    }

    /// Not there: transfers ordered by a CUDA stream. Returns -303 and moves nothing.
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length,
        stream_ptr = Count(0)))]
    #[expect(unused_variables, reason = "the signature that clients call")]
    fn transfer_read_on_cuda(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffer: Count,
        peer_buffer_address: Count,
        length: Count,
        stream_ptr: Count,
    ) -> i32 {
        without_stream(py, "transfer_read_on_cuda")
    }

    /// Not there: transfers ordered by a CUDA stream. Returns -303 and moves nothing.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths,
        stream_ptr = Count(0)))]
    #[expect(unused_variables, reason = "the signature that clients call")]
    fn batch_transfer_write_on_cuda(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffers: IntegerList,
        peer_buffer_addresses: IntegerList,
        lengths: IntegerList,
        stream_ptr: Count,
    ) -> i32 {
        without_stream(py, "batch_transfer_write_on_cuda")
    }

    /// Not there: transfers ordered by a CUDA stream. Returns -303 and moves nothing.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths,
        stream_ptr = Count(0)))]
    #[expect(unused_variables, reason = "the signature that clients call")]
    fn batch_transfer_read_on_cuda(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffers: IntegerList,
        peer_buffer_addresses: IntegerList,
        lengths: IntegerList,
        stream_ptr: Count,
    ) -> i32 {
        without_stream(py, "batch_transfer_read_on_cuda")
    }
}
