//! The numbers that callers see for an error. Invariant: an error of the project has a status, and
//! clients of Mooncake find their own integers.

use super::{BatchError, BufferError, EngineError};
use crate::request::{Direction, TransferState};
use perigee_mover::PeerError;
use perigee_schemas::Status;

impl EngineError {
    /// The status as it is known everywhere in the project.
    pub fn status(&self) -> Status {
        use EngineError as E;
        match self {
            E::Setting(_) | E::Device(_) | E::RemoteAddress { .. } | E::Resolve { .. } => {
                Status::InvalidParams
            }
            E::Start(_) | E::Memory(_) => Status::InternalError,
            E::Closed | E::Metadata(_) | E::Handshake(_) => Status::RpcFail,
            E::Buffer(error) => error.status(),
            E::Batch(error) => error.status(),
            E::NoRight { direction: Direction::Read, .. } => Status::InvalidRead,
            E::NoRight { .. } => Status::InvalidWrite,
            E::Peer(error) => error.status(),
            E::Canceled => Status::TransferFail,
            E::TooMany { .. } => Status::TaskPendingLimitExceeded,
            E::Unsupported(_) => Status::NotSupported,
        }
    }

    /// The integer of Mooncake's transfer engine, which has a code space of its own.
    pub fn code(&self) -> i32 {
        use EngineError as E;
        match self {
            E::TooMany { .. } => -2,
            E::Buffer(BufferError::NotRegistered { .. }) => -3,
            E::Batch(BatchError::Busy { .. }) | E::Buffer(BufferError::InUse { .. }) => -4,
            E::Device(_) => -6,
            E::Buffer(BufferError::Overlap { .. }) => -7,
            E::Resolve { .. } => -101,
            E::Peer(
                PeerError::Unreachable { .. }
                | PeerError::Vanished { .. }
                | PeerError::Broken { .. }
                | PeerError::Deadline { .. },
            ) => -102,
            E::Handshake(_) => -104,
            E::Metadata(_) => -200,
            E::Memory(_) => -302,
            E::Unsupported(_) => -303,
            _ => -1,
        }
    }

    /// The state of a request that failed this way.
    pub(crate) fn state(&self) -> TransferState {
        match self {
            EngineError::Peer(PeerError::Deadline { .. }) => TransferState::Timeout,
            EngineError::Canceled => TransferState::Canceled,
            EngineError::RemoteAddress { .. }
            | EngineError::NoRight { .. }
            | EngineError::Peer(PeerError::LocalMemory) => TransferState::Invalid,
            _ => TransferState::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_ones_that_clients_of_mooncake_know() {
        let overlap =
            BufferError::Overlap { address: 1, bytes: 1, other_address: 1, other_bytes: 1 };
        let dead = PeerError::Unreachable { peer: String::new(), reason: String::new() };
        let errors: [EngineError; 4] = [
            overlap.into(),
            BufferError::NotRegistered { address: 1 }.into(),
            BatchError::Busy { batch: 1 }.into(),
            dead.into(),
        ];
        assert_eq!(errors.map(|error| error.code()), [-7, -3, -4, -102]);
    }
}
