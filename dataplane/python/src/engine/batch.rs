//! Transfers that go on after the call: submit, poll, wait. Invariant: a batch is released as soon
//! as its end has been reported, and its number means nothing from then on.

use super::transfer::{options, request, requests};
use super::{EngineClient, FAILED};
use crate::arguments::{Count, IntegerList};
use crate::enumeration::TransferOpcode;
use crate::limits::MAX_BATCH_WAIT;
use crate::warning;
use perigee_engine::{
    BatchId, Direction, EngineError, RequestStatus, SubmitOptions, TransferEngine, TransferRequest,
    TransferState,
};
use pyo3::prelude::*;

/// Answer of a poll: still running.
const RUNNING: i32 = 0;
/// Answer of a poll: every byte is there.
const DONE: i32 = 1;
/// Answer of a poll: the deadline passed.
const TIMED_OUT: i32 = -2;

/// The number that stands for no batch.
const NO_BATCH: u64 = 0;

/// How a batch ended: the answer for the caller, and what went wrong.
struct Ended {
    answer: i32,
    error: Option<EngineError>,
}

/// Where a batch is; None while it runs. It is released once it has ended.
fn poll(engine: &TransferEngine, batch: BatchId) -> Result<Option<Ended>, EngineError> {
    let RequestStatus { state, .. } = engine.batch_status(batch)?;
    if !state.is_final() {
        return Ok(None);
    }
    let error = engine.batch_outcome(batch).err();
    engine.release(batch)?;
    let answer = match state {
        TransferState::Completed => DONE,
        TransferState::Timeout => TIMED_OUT,
        _ => FAILED,
    };
    Ok(Some(Ended { answer, error }))
}

/// Waits for the end of a batch and releases it; an error if not every byte is there.
fn finish(engine: &TransferEngine, batch: BatchId) -> Result<(), EngineError> {
    engine.wait(batch, MAX_BATCH_WAIT)?;
    let outcome = engine.batch_outcome(batch);
    engine.release(batch)?;
    outcome
}

impl EngineClient {
    /// Starts a batch; its number, or 0.
    fn submit(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        requests: &[TransferRequest],
        options: &SubmitOptions,
    ) -> u64 {
        let submitted = self.call(py, "Submitting a batch", |engine| {
            // SAFETY: the caller promises that its memory stays valid until the batch is over; the
            // engine does not touch it after that, nor after it was closed.
            unsafe { engine.submit(target_hostname, requests, options) }
        });
        submitted.map_or(NO_BATCH, |batch| batch.0)
    }

    fn submit_lists(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        direction: Direction,
        lists: [&IntegerList; 3],
        transport_hint: &str,
    ) -> u64 {
        let requests = requests(py, direction, lists);
        requests.map_or(NO_BATCH, |requests| {
            let options = options(transport_hint, None);
            self.submit(py, target_hostname, &requests, &options)
        })
    }
}

#[pymethods]
impl EngineClient {
    /// Start to copy `length` bytes from `buffer` here to `peer_buffer_address` there.
    ///
    /// Returns the number of the batch for `transfer_check_status`, or 0; the log says why.
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length, transport_hint = ""))]
    fn transfer_submit_write(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffer: Count,
        peer_buffer_address: Count,
        length: Count,
        transport_hint: &str,
    ) -> u64 {
        let request = request(Direction::Write, [buffer, peer_buffer_address, length]);
        let options = options(transport_hint, None);
        self.submit(py, target_hostname, &[request], &options)
    }

    /// Start to copy several buffers to the peer. Returns the number of the batch, or 0.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths,
        transport_hint = ""))]
    fn batch_transfer_async_write(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffers: IntegerList,
        peer_buffer_addresses: IntegerList,
        lengths: IntegerList,
        transport_hint: &str,
    ) -> u64 {
        let lists = [&buffers, &peer_buffer_addresses, &lengths];
        self.submit_lists(py, target_hostname, Direction::Write, lists, transport_hint)
    }

    /// Start to copy from the peer to several buffers. Returns the number of the batch, or 0.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths,
        transport_hint = ""))]
    fn batch_transfer_async_read(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffers: IntegerList,
        peer_buffer_addresses: IntegerList,
        lengths: IntegerList,
        transport_hint: &str,
    ) -> u64 {
        let lists = [&buffers, &peer_buffer_addresses, &lengths];
        self.submit_lists(py, target_hostname, Direction::Read, lists, transport_hint)
    }

    /// Start to copy several buffers in the direction of `opcode`. Returns the number of the batch,
    /// or 0.
    #[expect(clippy::too_many_arguments, reason = "the signature that clients call")]
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths, opcode,
        transport_hint = ""))]
    fn batch_transfer_async(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffers: IntegerList,
        peer_buffer_addresses: IntegerList,
        lengths: IntegerList,
        opcode: TransferOpcode,
        transport_hint: &str,
    ) -> u64 {
        let lists = [&buffers, &peer_buffer_addresses, &lengths];
        self.submit_lists(py, target_hostname, opcode.into(), lists, transport_hint)
    }

    /// Returns 1 when the batch is done, 0 while it runs, -1 when it failed, -2 when its deadline
    /// passed.
    ///
    /// After an answer other than 0 the number is free: asked again, it answers -1.
    fn transfer_check_status(&self, py: Python<'_>, batch_id: Count) -> i32 {
        let what = "transfer_check_status()";
        let polled = self.look(py, what, |engine| poll(engine, BatchId(batch_id.0)));
        match polled {
            Ok(None) => RUNNING,
            Ok(Some(ended)) => {
                if let Some(error) = ended.error {
                    warning::engine_error(py, &format!("A batch failed: {error}"));
                }
                ended.answer
            }
            Err(_) => FAILED,
        }
    }

    /// Wait for batches. Returns 0 when every byte of all of them is there, else -1. Their numbers
    /// are free then.
    fn get_batch_transfer_status(&self, py: Python<'_>, batch_ids: IntegerList) -> i32 {
        let mut batches = batch_ids.0;
        batches.sort_unstable();
        batches.dedup();
        let finished = self.call(py, "A batch", |engine| {
            let mut outcome = Ok(());
            for &batch in &batches {
                // All are waited for, also when one of them failed.
                outcome = outcome.and(finish(engine, BatchId(batch)));
            }
            outcome
        });
        finished.map_or(FAILED, |()| 0)
    }
}
