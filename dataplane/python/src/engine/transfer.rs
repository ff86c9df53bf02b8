//! Transfers that end before the call does. Invariant: lists of different lengths move nothing.

use super::{EngineClient, FAILED, TransferNotify};
use crate::arguments::{Count, IntegerList};
use crate::enumeration::TransferOpcode;
use crate::warning;
use perigee_engine::{Direction, Notify, SubmitOptions, TransferRequest};
use pyo3::prelude::*;

impl From<TransferOpcode> for Direction {
    fn from(opcode: TransferOpcode) -> Self {
        if opcode == TransferOpcode::Read { Self::Read } else { Self::Write }
    }
}

/// One request of a call: local address, address at the peer, length.
pub(super) fn request(direction: Direction, [local, remote, bytes]: [Count; 3]) -> TransferRequest {
    TransferRequest { direction, local: local.0, remote: remote.0, bytes: bytes.0 }
}

/// The requests of a batch, from lists of what one request has; None, and a line in the log, if the
/// lists differ in length.
pub(super) fn requests(
    py: Python<'_>,
    direction: Direction,
    [local, remote, bytes]: [&IntegerList; 3],
) -> Option<Vec<TransferRequest>> {
    let (local, remote, bytes) = (&local.0, &remote.0, &bytes.0);
    if local.len() != remote.len() || local.len() != bytes.len() {
        let text = format!(
            "A batch transfer failed: {} buffers, {} peer addresses and {} lengths were given",
            local.len(),
            remote.len(),
            bytes.len()
        );
        warning::engine_error(py, &text);
        return None;
    }
    let triples = local.iter().zip(remote).zip(bytes);
    let one = |((&local, &remote), &bytes)| request(direction, [local, remote, bytes].map(Count));
    Some(triples.map(one).collect())
}

/// What a call says about its transfers beside the requests.
pub(super) fn options(transport_hint: &str, notify: Option<&TransferNotify>) -> SubmitOptions {
    SubmitOptions {
        hint: (!transport_hint.is_empty()).then(|| transport_hint.to_owned()),
        notify: notify.map(Notify::from),
        ..SubmitOptions::default()
    }
}

impl EngineClient {
    /// Moves everything; 0 or -1.
    fn transfer(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        requests: &[TransferRequest],
        options: &SubmitOptions,
    ) -> i32 {
        let moved = self.call(py, "A transfer", |engine| {
            // SAFETY: the caller promises that its memory stays valid until the call is over, and
            // the engine does not touch it after that.
            unsafe { engine.transfer(target_hostname, requests, options) }
        });
        moved.map_or(FAILED, |()| 0)
    }

    /// As `transfer`, for a batch given as lists.
    fn transfer_lists(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        direction: Direction,
        lists: [&IntegerList; 3],
        options: &SubmitOptions,
    ) -> i32 {
        let requests = requests(py, direction, lists);
        requests.map_or(FAILED, |requests| self.transfer(py, target_hostname, &requests, options))
    }
}

#[pymethods]
impl EngineClient {
    /// Copy `length` bytes from `buffer` here to `peer_buffer_address` there, and wait for it.
    ///
    /// target_hostname: the peer's segment name. Memory at the peer must be registered there.
    /// Returns 0, or -1; the log says why.
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length, transport_hint = ""))]
    fn transfer_sync_write(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffer: Count,
        peer_buffer_address: Count,
        length: Count,
        transport_hint: &str,
    ) -> i32 {
        let request = request(Direction::Write, [buffer, peer_buffer_address, length]);
        let options = options(transport_hint, None);
        self.transfer(py, target_hostname, &[request], &options)
    }

    /// Copy `length` bytes from `peer_buffer_address` there to `buffer` here, and wait for it.
    ///
    /// Returns 0, or -1; the log says why.
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length, transport_hint = ""))]
    fn transfer_sync_read(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffer: Count,
        peer_buffer_address: Count,
        length: Count,
        transport_hint: &str,
    ) -> i32 {
        let request = request(Direction::Read, [buffer, peer_buffer_address, length]);
        let options = options(transport_hint, None);
        self.transfer(py, target_hostname, &[request], &options)
    }

    /// Copy `length` bytes in the direction of `opcode`, and wait for it; then send `notify`.
    ///
    /// Returns 0, or -1; the log says why.
    #[expect(clippy::too_many_arguments, reason = "the signature that clients call")]
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length, opcode,
        notify = None, transport_hint = ""))]
    fn transfer_sync(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffer: Count,
        peer_buffer_address: Count,
        length: Count,
        opcode: TransferOpcode,
        notify: Option<PyRef<'_, TransferNotify>>,
        transport_hint: &str,
    ) -> i32 {
        let request = request(opcode.into(), [buffer, peer_buffer_address, length]);
        let options = options(transport_hint, notify.as_deref());
        self.transfer(py, target_hostname, &[request], &options)
    }

    /// `transfer_sync_write` of several buffers at once. Returns 0 when all bytes are there, else
    /// -1.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths,
        transport_hint = ""))]
    fn batch_transfer_sync_write(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffers: IntegerList,
        peer_buffer_addresses: IntegerList,
        lengths: IntegerList,
        transport_hint: &str,
    ) -> i32 {
        let lists = [&buffers, &peer_buffer_addresses, &lengths];
        let options = options(transport_hint, None);
        self.transfer_lists(py, target_hostname, Direction::Write, lists, &options)
    }

    /// `transfer_sync_read` of several buffers at once. Returns 0 when all bytes are there, else
    /// -1.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths,
        transport_hint = ""))]
    fn batch_transfer_sync_read(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffers: IntegerList,
        peer_buffer_addresses: IntegerList,
        lengths: IntegerList,
        transport_hint: &str,
    ) -> i32 {
        let lists = [&buffers, &peer_buffer_addresses, &lengths];
        let options = options(transport_hint, None);
        self.transfer_lists(py, target_hostname, Direction::Read, lists, &options)
    }

    /// `transfer_sync` of several buffers at once. Returns 0 when all bytes are there, else -1.
    #[expect(clippy::too_many_arguments, reason = "the signature that clients call")]
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths, opcode,
        notify = None, transport_hint = ""))]
    fn batch_transfer_sync(
        &self,
        py: Python<'_>,
        target_hostname: &str,
        buffers: IntegerList,
        peer_buffer_addresses: IntegerList,
        lengths: IntegerList,
        opcode: TransferOpcode,
        notify: Option<PyRef<'_, TransferNotify>>,
        transport_hint: &str,
    ) -> i32 {
        let lists = [&buffers, &peer_buffer_addresses, &lengths];
        let options = options(transport_hint, notify.as_deref());
        self.transfer_lists(py, target_hostname, opcode.into(), lists, &options)
    }
}
