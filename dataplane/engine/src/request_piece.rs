//! One contiguous part of a request, as it is planned and moved.
//! Invariant: a refusal names the remote range of the piece.

use crate::error::EngineError;
use perigee_memory::checksum::crc32c_raw;
use perigee_mover::{Moved, PeerError};
use perigee_schemas::{Direction, Status};

/// One contiguous part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestPiece {
    /// Number of the request in its batch.
    pub(crate) request: u32,
    pub(crate) local: u64,
    pub(crate) remote: u64,
    pub(crate) bytes: u64,
    /// Whether it is the first of its request.
    pub(crate) is_first: bool,
}

impl RequestPiece {
    /// CRC-32C of its local bytes.
    ///
    /// # Safety
    /// They must be readable host memory.
    pub(crate) unsafe fn sum(&self) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { crc32c_raw(self.local as *const u8, self.bytes as usize) }
    }

    /// What it means that the peer answered it with this status.
    pub(crate) fn refusal(&self, peer: &str, status: Status) -> EngineError {
        let (peer, address, bytes) = (peer.to_owned(), self.remote, self.bytes);
        match status {
            Status::InvalidParams => EngineError::RemoteAddress { peer, address, bytes },
            Status::InvalidWrite => {
                EngineError::NoRight { peer, direction: Direction::Write, address, bytes }
            }
            Status::InvalidRead => {
                EngineError::NoRight { peer, direction: Direction::Read, address, bytes }
            }
            Status::InvalidReplica => EngineError::Peer(PeerError::Restarted { peer }),
            Status::ChecksumMismatch => EngineError::Peer(PeerError::Damaged { peer }),
            status => EngineError::Peer(PeerError::Refused { peer, status }),
        }
    }
}

/// What pieces move together.
pub(crate) fn moved(pieces: &[RequestPiece]) -> Moved {
    Moved {
        operations: pieces.iter().filter(|piece| piece.is_first).count() as u64,
        bytes: pieces.iter().map(|piece| piece.bytes).sum(),
    }
}
