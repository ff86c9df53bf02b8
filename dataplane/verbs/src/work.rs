//! Work requests and completions.
//! Invariant: plain data; inline bytes are borrowed, so nothing outside of registered memory is
//! ever read through a bare address.

use crate::capacity::QueuePairCapacity;
use crate::device_info::DeviceInfo;
use crate::error::VerbsError;

/// One read or write of a peer's memory.
#[derive(Clone, Copy, Debug)]
pub struct WorkRequest<'a> {
    /// Comes back in the completion.
    pub id: u64,
    /// Direction and the local side.
    pub operation: WorkOperation<'a>,
    /// First byte at the peer.
    pub remote_address: u64,
    /// The peer's key for it.
    pub remote_key: u32,
    /// Whether success is reported. Errors always are. A later signalled request on the same queue
    /// pair that succeeds means that this one did too.
    pub signaled: bool,
}

impl WorkRequest<'_> {
    /// Bytes that move.
    pub fn bytes(&self) -> u64 {
        match self.operation {
            WorkOperation::Read(pieces) | WorkOperation::Write(pieces) => {
                pieces.iter().map(|piece| u64::from(piece.bytes)).sum()
            }
            WorkOperation::WriteInline(data) => data.len() as u64,
        }
    }
}

impl WorkRequest<'_> {
    /// Whether `device` can be given this request on a queue pair of that capacity.
    pub(crate) fn check(
        &self,
        device: &DeviceInfo,
        capacity: &QueuePairCapacity,
    ) -> Result<(), VerbsError> {
        let (what, asked, limit) = match self.operation {
            WorkOperation::Read(pieces) | WorkOperation::Write(pieces) => {
                ("Pieces of a work request", pieces.len(), capacity.pieces)
            }
            WorkOperation::WriteInline(data) => ("Inline bytes", data.len(), capacity.inline_bytes),
        };
        let message_bytes = device.limits.message_bytes;
        for (what, asked, limit) in [
            (what, asked as u64, u64::from(limit)),
            ("Bytes of a work request", self.bytes(), message_bytes),
        ] {
            if asked > limit {
                return Err(VerbsError::TooMuch {
                    device: device.name.clone(),
                    what,
                    asked,
                    limit,
                });
            }
        }
        Ok(())
    }
}

/// What a work request does, and with which local bytes.
#[derive(Clone, Copy, Debug)]
pub enum WorkOperation<'a> {
    /// Peer's memory to the pieces, in order.
    Read(&'a [Sge]),
    /// The pieces, in order, to the peer's memory.
    Write(&'a [Sge]),
    /// These bytes to the peer's memory. They are copied before `post` returns; at most
    /// `inline_bytes` of the queue pair.
    WriteInline(&'a [u8]),
}

/// A run of registered local bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: u32,
    /// Key of the region it lies in.
    pub local_key: u32,
}

/// The end of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The work request's `id`.
    pub id: u64,
    /// How it ended.
    pub status: CompletionStatus,
    /// Bytes moved; only meaningful for successful reads, 0 elsewhere.
    pub bytes: u32,
    /// Number of the queue pair it was posted on.
    pub queue_pair: u32,
}

impl WorkCompletion {
    /// A place for [`crate::queue::CompletionQueue::poll`] to write to.
    pub const EMPTY: WorkCompletion =
        WorkCompletion { id: 0, status: CompletionStatus::Success, bytes: 0, queue_pair: 0 };
}

/// How a work request ended. After anything but success the queue pair is in the error state and
/// everything behind it comes back as [`CompletionStatus::Flushed`].
///
/// Which error a given mistake gives differs between devices and kernels: act on "not success",
/// and use the kind for words and statistics only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionStatus {
    /// Done.
    Success,
    /// Never tried, or cut off: the queue pair had failed before.
    Flushed,
    /// The own region or key does not allow it.
    LocalProtection,
    /// The request itself is malformed, or the own side failed.
    LocalOperation,
    /// The peer's region, key or bounds do not allow it.
    RemoteAccess,
    /// The peer found the request malformed.
    RemoteInvalidRequest,
    /// The peer failed.
    RemoteOperation,
    /// The peer did not answer within all retries.
    RetryExceeded,
    /// The peer was not ready within all retries.
    RnrRetryExceeded,
    /// The device failed.
    DeviceFatal,
    /// Any other `ibv_wc_status`.
    Other(u32),
}

impl CompletionStatus {
    /// Whether the bytes moved.
    pub fn is_success(self) -> bool {
        self == CompletionStatus::Success
    }
}

impl std::fmt::Display for CompletionStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CompletionStatus::Success => "success",
            CompletionStatus::Flushed => "flushed after an earlier error",
            CompletionStatus::LocalProtection => "local protection error",
            CompletionStatus::LocalOperation => "local operation error",
            CompletionStatus::RemoteAccess => "remote access refused",
            CompletionStatus::RemoteInvalidRequest => "refused by the peer as invalid",
            CompletionStatus::RemoteOperation => "remote operation error",
            CompletionStatus::RetryExceeded => "no answer from the peer",
            CompletionStatus::RnrRetryExceeded => "the peer was never ready",
            CompletionStatus::DeviceFatal => "the device failed",
            CompletionStatus::Other(code) => return write!(f, "completion status {code}"),
        })
    }
}
