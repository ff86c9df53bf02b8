//! What a caller asks for and gets back: requests, states, options. Plain values.

use std::time::Duration;

pub use perigee_schemas::Direction;

/// One contiguous transfer between this process and a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRequest {
    /// Which way the bytes go.
    pub direction: Direction,
    /// Address in this process.
    pub local: u64,
    /// Address in the process that owns the segment.
    pub remote: u64,
    /// Length; 0 is done at once and touches nothing.
    pub bytes: u64,
}

/// How far a request is. The numbers are the ones Mooncake's clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TransferState {
    /// Not yet handed to a route.
    Waiting = 0,
    /// Under way.
    Pending = 1,
    /// The request cannot be carried out as it is.
    Invalid = 2,
    /// The caller took it back.
    Canceled = 3,
    /// All bytes are in place.
    Completed = 4,
    /// The deadline passed.
    Timeout = 5,
    /// The bytes did not move.
    Failed = 6,
}

impl TransferState {
    /// Whether nothing will change any more and the memory is not touched any more.
    pub fn is_final(self) -> bool {
        !matches!(self, TransferState::Waiting | TransferState::Pending)
    }

    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            0 => TransferState::Waiting,
            1 => TransferState::Pending,
            2 => TransferState::Invalid,
            3 => TransferState::Canceled,
            4 => TransferState::Completed,
            5 => TransferState::Timeout,
            _ => TransferState::Failed,
        }
    }
}

/// How far a request or a whole batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestStatus {
    /// Its state; of a batch, the worst final state once all requests have one.
    pub state: TransferState,
    /// Bytes that are in place.
    pub bytes: u64,
}

/// A message to the owner of a segment, delivered in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notify {
    /// What it is about.
    pub name: String,
    /// What it says.
    pub message: String,
}

/// Wishes for one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubmitOptions {
    /// Longest the batch may take; the engine's default otherwise.
    pub deadline: Option<Duration>,
    /// Sent to the owner once every request has completed, and only then.
    pub notify: Option<Notify>,
    /// The only route to use: `tcp`, `rdma` or `shm`. The nearest one that reaches all of the batch
    /// otherwise.
    pub hint: Option<String>,
}

/// Names a batch in one engine. Never 0; a released number is not used again for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId(pub u64);
