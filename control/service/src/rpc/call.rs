//! One call as its handler sees it: the reply that is built, what is counted of it, why it is
//! refused.
//! Invariant: a refusal carries the status for the client and the reason for the log.

use flatbuffers::FlatBufferBuilder;
use perigee_metrics::RpcKind;
use perigee_schemas::Status;
use perigee_schemas::message::MessageError;

/// The builder an answer is written with.
pub(crate) type ReplyBuilder = FlatBufferBuilder<'static>;

/// Why a call is refused as a whole. The connection stays usable.
#[derive(Debug)]
pub(crate) struct CallRefusal {
    pub(super) status: Status,
    pub(super) message: String,
}

/// What a call was about, for the counters.
#[derive(Debug)]
pub(crate) struct CallCounts {
    pub(super) kind: RpcKind,
    pub(super) items: u64,
    pub(super) failed: u64,
}

impl CallCounts {
    /// A call about one thing.
    pub(super) fn one(kind: RpcKind, ok: bool) -> Self {
        Self { kind, items: 1, failed: u64::from(!ok) }
    }

    /// A call about keys: the single or the batch kind, with one code per key.
    pub(super) fn keys(kind: RpcKind, single: bool, codes: &[i32]) -> Self {
        let kind = if single { kind } else { kind.batched() };
        let failed = codes.iter().filter(|code| **code < 0).count() as u64;
        Self { kind, items: codes.len() as u64, failed }
    }
}

impl CallRefusal {
    pub(super) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

impl From<MessageError> for CallRefusal {
    fn from(error: MessageError) -> Self {
        Self::new(Status::DeserializeFail, error.to_string())
    }
}
