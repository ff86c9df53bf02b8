//! Why a call to the master did not bring an answer.

use perigee_schemas::Status;
use perigee_schemas::frame::FrameError;
use perigee_schemas::message::MessageError;
use std::io;
use std::time::Duration;

/// Why a call failed. The master's own verdicts are statuses in its reply, not errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The address cannot be understood.
    #[error("Master address {address:?} cannot be used: {reason}; write host:port")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No process answers at the address, or its name has no address now.
    #[error("Master {address} cannot be reached: {source}")]
    Unreachable {
        /// The master's address.
        address: String,
        /// The answer of the kernel, or of the name service.
        source: io::Error,
    },
    /// The master could not be reached a moment ago; calls fail at once for a short while.
    #[error("Master {address} did not answer a moment ago; not tried again yet")]
    Broken {
        /// The master's address.
        address: String,
    },
    /// The connection broke during the call.
    #[error("Connection to the master broke: {0}")]
    Io(#[from] io::Error),
    /// No answer in time.
    #[error("Master did not answer within {0:?}")]
    Deadline(Duration),
    /// The caller broke the wait off.
    #[error("Interrupted while the master was asked")]
    Interrupted,
    /// The answer is not one of ours.
    #[error("Master answered with a bad frame: {0}")]
    Frame(#[from] FrameError),
    /// The answer's body is malformed.
    #[error("Master answered with a bad body: {0}")]
    Message(#[from] MessageError),
    /// The answer has fewer entries than the request.
    #[error("Master answered {found} entries for {wanted}")]
    Columns {
        /// Entries in the answer.
        found: usize,
        /// Entries asked for.
        wanted: usize,
    },
    /// The master refused the connection or the call.
    #[error("Master refused: {message} ({status})")]
    Refused {
        /// Its verdict.
        status: Status,
        /// Its reason.
        message: String,
    },
}

impl CallError {
    /// The status that callers of the store see.
    pub fn status(&self) -> Status {
        match self {
            CallError::Address { .. } => Status::InvalidParams,
            CallError::Unreachable { .. }
            | CallError::Broken { .. }
            | CallError::Io(_)
            | CallError::Interrupted => Status::RpcFail,
            CallError::Deadline(_) => Status::RpcTimeout,
            CallError::Frame(_) | CallError::Message(_) | CallError::Columns { .. } => {
                Status::DeserializeFail
            }
            CallError::Refused { status, .. } => *status,
        }
    }

    /// Whether the connection was found dead before the master can have acted on the request.
    pub(crate) fn is_stale_connection(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        matches!(self, CallError::Io(error)
        if matches!(
            error.kind(),
            BrokenPipe | ConnectionReset | ConnectionAborted | UnexpectedEof
        ))
    }
}
