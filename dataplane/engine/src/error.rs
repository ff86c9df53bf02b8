//! Why an engine could not start, a buffer not be registered, or bytes not be moved.
//! Invariant: every message names the peer, buffer or setting it is about.

mod batch;
mod buffer;
mod codes;

pub use batch::BatchError;
pub use buffer::BufferError;

use perigee_discovery::{DiscoveryError, HandshakeError};
use perigee_mover::{PeerError, ServerError, ShardsError};
use perigee_schemas::Direction;
use perigee_settings::SettingError;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A setting or argument cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A device that was asked for is not there.
    #[error("{0}")]
    Device(String),
    /// An executor, port, thread or random number cannot be had from the system.
    #[error("The engine cannot start: {0}")]
    Start(String),
    /// The engine has been closed.
    #[error("The engine is closed")]
    Closed,
    /// The metadata backend did not answer or refused.
    #[error("Metadata: {0}")]
    Metadata(String),
    /// A buffer cannot be registered or taken back.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// Memory cannot be allocated.
    #[error("No memory: {0}")]
    Memory(String),
    /// The host name of a peer does not resolve.
    #[error("Peer {peer} has no address: {reason}")]
    Resolve {
        /// Name of the peer, as the caller wrote it.
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
        /// Name of the peer, as the caller wrote it.
        peer: String,
        /// First remote byte.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// The remote range is registered, but cannot be read, or written.
    #[error(
        "Peer {peer} refused to {} {bytes} bytes at {address:#x}: that memory does not allow it there: mapped for \
         reading only, without any right, or not mapped any more; map it with that right, or use other memory",
        .direction.label()
    )]
    NoRight {
        /// Name of the peer, as the caller wrote it.
        peer: String,
        /// What was to be done.
        direction: Direction,
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
    /// No such batch, or one that is still under way.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Too many batches, requests, buffers or the like.
    #[error("Too many {what}: the limit is {limit}; {remedy}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// Most that there may be.
        limit: usize,
        /// What to do.
        remedy: &'static str,
    },
    /// This build, host or route cannot do it.
    #[error("Not supported: {0}")]
    Unsupported(String),
}

impl EngineError {
    /// Whether the peer's descriptor may be out of date, so that it is asked for again next time.
    pub(crate) fn is_peer_fault(&self) -> bool {
        matches!(
            self,
            EngineError::Peer(PeerError::Unreachable { .. })
                | EngineError::Peer(PeerError::Vanished { .. })
                | EngineError::Peer(PeerError::Broken { .. })
                | EngineError::Peer(PeerError::Restarted { .. })
        )
    }
}

impl EngineError {
    /// Whether bytes of a write may still arrive.
    pub(crate) fn may_still_arrive(&self) -> bool {
        let EngineError::Peer(error) = self else {
            return matches!(self, EngineError::Canceled | EngineError::Closed);
        };
        matches!(
            error,
            PeerError::Broken { .. } | PeerError::Vanished { .. } | PeerError::Deadline { .. }
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

impl From<DiscoveryError> for EngineError {
    fn from(error: DiscoveryError) -> Self {
        match error {
            DiscoveryError::Handshake(error) => error.into(),
            DiscoveryError::Setting(error) => error.into(),
            DiscoveryError::Closed => EngineError::Closed,
            other @ (DiscoveryError::Port { .. } | DiscoveryError::NoFreePort { .. }) => {
                EngineError::Start(other.to_string())
            }
            other => EngineError::Metadata(other.to_string()),
        }
    }
}
