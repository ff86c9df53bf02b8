//! Why an engine could not start, a buffer not be registered, or bytes not be moved.
//! Invariant: every message names the peer, buffer or setting it is about.

use crate::request::TransferState;
use perigee_discovery::{DiscoveryError, HandshakeError};
use perigee_mover::{PeerError, ServerError, ShardsError};
use perigee_schemas::Status;
use perigee_settings::SettingError;
use std::time::Duration;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A setting or argument cannot be used.
    #[error("{name} {value:?} cannot be used: {reason}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it and what to write instead.
        reason: String,
    },
    /// A device that was asked for is not there.
    #[error("{0}")]
    Device(String),
    /// No executor, port, thread or random number is to be had.
    #[error("The engine cannot start: {0}")]
    Start(String),
    /// The engine has been closed.
    #[error("The engine is closed")]
    Closed,
    /// The metadata backend did not answer or refused.
    #[error("Metadata: {0}")]
    Metadata(String),
    /// No bytes, or bytes that are not memory of this process.
    #[error(
        "The buffer at {address:#x} of {bytes} bytes cannot be registered: {reason}; register memory that exists"
    )]
    Buffer {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Part of the buffer is registered already.
    #[error(
        "The buffer at {address:#x} of {bytes} bytes overlaps the one registered at {other_address:#x} of {other_bytes} \
         bytes; unregister that first"
    )]
    Overlap {
        /// First byte of the new buffer.
        address: u64,
        /// Its length.
        bytes: u64,
        /// First byte of the registered buffer.
        other_address: u64,
        /// Its length.
        other_bytes: u64,
    },
    /// No buffer is registered at an address.
    #[error("No buffer is registered at {address:#x}; pass the address it was registered with")]
    NotRegistered {
        /// The address.
        address: u64,
    },
    /// Operations still use a buffer; it takes no new ones.
    #[error(
        "The buffer at {address:#x} is still in use after {waited:?}; keep its memory and unregister it again later"
    )]
    InUse {
        /// First byte.
        address: u64,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Memory is not to be had.
    #[error("No memory: {0}")]
    Memory(String),
    /// The host name of a peer does not resolve.
    #[error("Peer {peer} has no address: {reason}")]
    Resolve {
        /// The peer.
        peer: String,
        /// What the resolver said.
        reason: String,
    },
    /// A peer cannot be reached, broke off, was late, restarted or refused.
    #[error(transparent)]
    Peer(PeerError),
    /// The remote range does not lie in a registered buffer.
    #[error(
        "Peer {peer} refused {bytes} bytes at {address:#x}: they do not lie in one buffer registered there"
    )]
    RemoteAddress {
        /// The peer.
        peer: String,
        /// First remote byte.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// The remote range is registered, but cannot be written.
    #[error(
        "Peer {peer} refused to write {bytes} bytes at {address:#x}: that memory is mapped for reading only; map it writable \
         there, or write elsewhere"
    )]
    ReadOnly {
        /// The peer.
        peer: String,
        /// First remote byte.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// The peer's handshake port answered that it will not, or something unusable.
    #[error("{0}")]
    Handshake(String),
    /// The caller took the batch back.
    #[error("The batch was canceled")]
    Canceled,
    /// No such batch, or no such request in it.
    #[error("No batch {batch} with a request {index}; it was released or never submitted")]
    UnknownBatch {
        /// Number of the batch.
        batch: u64,
        /// Number of the request.
        index: usize,
    },
    /// The batch is still under way.
    #[error("Batch {batch} is still under way; wait for it or cancel it, then release it")]
    BatchBusy {
        /// Number of the batch.
        batch: u64,
    },
    /// Too many batches, requests, buffers or the like.
    #[error("Too many {what}: the limit is {limit}; {remedy}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// What to do.
        remedy: &'static str,
    },
    /// This build, host or route cannot do it.
    #[error("Not supported: {0}")]
    Unsupported(String),
}

impl EngineError {
    /// The status as it is known everywhere in the project.
    pub fn status(&self) -> Status {
        use EngineError as E;
        match self {
            E::Setting { .. }
            | E::Device(_)
            | E::Buffer { .. }
            | E::NotRegistered { .. }
            | E::RemoteAddress { .. }
            | E::Resolve { .. } => Status::InvalidParams,
            E::Start(_) | E::Memory(_) => Status::InternalError,
            E::Closed | E::Metadata(_) | E::Handshake(_) => Status::RpcFail,
            E::Overlap { .. } => Status::SegmentAlreadyExists,
            E::InUse { .. } | E::BatchBusy { .. } => Status::UnavailableInCurrentStatus,
            E::ReadOnly { .. } => Status::InvalidWrite,
            E::Peer(error) => error.status(),
            E::Canceled => Status::TransferFail,
            E::UnknownBatch { .. } => Status::TaskNotFound,
            E::TooMany { .. } => Status::TaskPendingLimitExceeded,
            E::Unsupported(_) => Status::NotSupported,
        }
    }

    /// The integer of Mooncake's transfer engine, which has a code space of its own.
    pub fn code(&self) -> i32 {
        use EngineError as E;
        match self {
            E::TooMany { .. } => -2,
            E::NotRegistered { .. } => -3,
            E::BatchBusy { .. } | E::InUse { .. } => -4,
            E::Device(_) => -6,
            E::Overlap { .. } => -7,
            E::Resolve { .. } => -101,
            E::Peer(
                PeerError::Unreachable { .. }
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
            | EngineError::ReadOnly { .. }
            | EngineError::Peer(PeerError::LocalMemory) => TransferState::Invalid,
            _ => TransferState::Failed,
        }
    }

    /// Whether the peer's descriptor may be out of date, so that it is asked for again next time.
    pub(crate) fn is_peer_fault(&self) -> bool {
        matches!(
            self,
            EngineError::Peer(PeerError::Unreachable { .. })
                | EngineError::Peer(PeerError::Broken { .. })
                | EngineError::Peer(PeerError::Restarted { .. })
        )
    }
}

impl From<PeerError> for EngineError {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::Closed => EngineError::Closed,
            PeerError::Canceled => EngineError::Canceled,
            PeerError::Memory(reason) => EngineError::Memory(reason),
            error => EngineError::Peer(error),
        }
    }
}

impl From<ShardsError> for EngineError {
    fn from(error: ShardsError) -> Self {
        EngineError::Start(error.to_string())
    }
}

impl From<ServerError> for EngineError {
    fn from(error: ServerError) -> Self {
        EngineError::Start(error.to_string())
    }
}

impl From<HandshakeError> for EngineError {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Unresolved { peer, reason } => EngineError::Resolve { peer, reason },
            HandshakeError::Unreachable { peer, reason, .. } => {
                EngineError::Peer(PeerError::Unreachable { peer, reason })
            }
            HandshakeError::Broken { peer, reason } => {
                EngineError::Peer(PeerError::Broken { peer, reason })
            }
            HandshakeError::Deadline { peer, deadline } => {
                EngineError::Peer(PeerError::Deadline { peer, deadline })
            }
            other => EngineError::Handshake(other.to_string()),
        }
    }
}

impl From<SettingError> for EngineError {
    fn from(error: SettingError) -> Self {
        Self::Setting { name: error.name, value: error.value, reason: error.allowed }
    }
}

impl From<DiscoveryError> for EngineError {
    fn from(error: DiscoveryError) -> Self {
        match error {
            DiscoveryError::Handshake(error) => error.into(),
            DiscoveryError::Setting { name, value, reason } => {
                EngineError::Setting { name, value, reason }
            }
            DiscoveryError::Closed => EngineError::Closed,
            other @ (DiscoveryError::Port { .. } | DiscoveryError::NoFreePort { .. }) => {
                EngineError::Start(other.to_string())
            }
            other => EngineError::Metadata(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_ones_that_clients_of_mooncake_know() {
        let overlap =
            EngineError::Overlap { address: 1, bytes: 1, other_address: 1, other_bytes: 1 };
        let dead = EngineError::Peer(PeerError::Unreachable {
            peer: String::new(),
            reason: String::new(),
        });
        let unknown = EngineError::NotRegistered { address: 1 };
        assert_eq!((overlap.code(), unknown.code(), dead.code()), (-7, -3, -102));
    }
}
