//! Why bytes did not come from or to a peer. Invariant: every message names the peer, or the memory
//! of this process.

use crate::limits::CONNECT_DEADLINE;
use perigee_schemas::Status;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// What went wrong with one peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// It cannot be reached.
    #[error("Peer {peer} cannot be reached: {reason}")]
    Unreachable {
        /// Endpoint of the peer, `HOST:PORT` or a name.
        peer: String,
        /// What the kernel or the peer said.
        reason: String,
    },
    /// This process has no socket left to reach it with.
    #[error(
        "No socket for a connection to peer {peer}: {reason}; raise the limit of open files (ulimit -n)"
    )]
    NoSocket {
        /// Endpoint of the peer, `HOST:PORT` or a name.
        peer: String,
        /// What the kernel said.
        reason: String,
    },
    /// The connection broke during a transfer: bytes may still arrive.
    #[error("Connection to peer {peer} broke: {reason}")]
    Broken {
        /// Endpoint of the peer, `HOST:PORT` or a name.
        peer: String,
        /// What happened.
        reason: String,
    },
    /// Its host does not answer any more, in the middle of a transfer: bytes may still arrive.
    #[error("Peer {peer} has vanished: {reason}")]
    Vanished {
        /// Endpoint of the peer, `HOST:PORT` or a name.
        peer: String,
        /// What the kernel said.
        reason: String,
    },
    /// A transfer did not finish in time.
    #[error("Peer {peer} did not finish within {deadline:?}")]
    Deadline {
        /// Endpoint of the peer, `HOST:PORT` or a name.
        peer: String,
        /// The time it had.
        deadline: Duration,
    },
    /// It is another process than the one whose addresses were used.
    #[error(
        "Peer {peer} has restarted: exchange buffer addresses with it again, then repeat the transfer"
    )]
    Restarted {
        /// Endpoint of the peer, `HOST:PORT` or a name.
        peer: String,
    },
    /// The peer answered with a status other than success.
    #[error("Peer {peer} refused: {status}")]
    Refused {
        /// Endpoint of the peer, `HOST:PORT` or a name.
        peer: String,
        /// Its verdict.
        status: Status,
    },
    /// The bytes changed on the way.
    #[error("Bytes from or to peer {peer} arrived damaged")]
    Damaged {
        /// Endpoint of the peer, `HOST:PORT` or a name.
        peer: String,
    },
    /// The kernel cannot reach the caller's memory.
    #[error(
        "The local range is not memory that this process may read and write; pass valid addresses and lengths"
    )]
    LocalMemory,
    /// Host memory for a device's bytes cannot be allocated.
    #[error("No memory: {0}")]
    Memory(String),
    /// The caller took the transfer back: bytes of a write may still arrive.
    #[error("The batch was canceled")]
    Canceled,
    /// This side was closed.
    #[error("The transfers of this process are closed")]
    Closed,
}

impl PeerError {
    /// The status as it is known everywhere in the project.
    pub fn status(&self) -> Status {
        match self {
            Self::Unreachable { .. }
            | Self::NoSocket { .. }
            | Self::Broken { .. }
            | Self::Vanished { .. }
            | Self::Closed => Status::RpcFail,
            Self::Deadline { .. } => Status::RpcTimeout,
            Self::Restarted { .. } => Status::InvalidReplica,
            Self::Refused { status, .. } => *status,
            Self::Damaged { .. } => Status::ChecksumMismatch,
            Self::LocalMemory => Status::InvalidParams,
            Self::Memory(_) => Status::InternalError,
            Self::Canceled => Status::TransferFail,
        }
    }

    /// Whether this side ended the transfer, so that it says nothing about the peer.
    pub(crate) fn is_of_this_side(&self) -> bool {
        matches!(self, Self::Canceled | Self::Closed)
    }

    /// Whether the next one that connects would meet it, too. A peer that was late on an open
    /// connection may be back.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Restarted { .. })
    }

    /// Whether nothing answers where the peer was: its host, its process or the way to it is gone.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Vanished { .. })
    }

    /// Whether another address of the same peer may still lead to it.
    pub(crate) fn is_of_one_address(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Restarted { .. })
    }

    /// What an error of a connection to `peer` means for a transfer that had `deadline`.
    pub(crate) fn of_connection(error: &io::Error, peer: &str, deadline: Duration) -> Self {
        let peer = peer.to_owned();
        match error.kind() {
            _ if error.raw_os_error() == Some(libc::EFAULT) => Self::LocalMemory,
            _ if is_silence(error) => Self::Vanished { peer, reason: error.to_string() },
            io::ErrorKind::TimedOut => Self::Deadline { peer, deadline },
            _ => Self::Broken { peer, reason: error.to_string() },
        }
    }

    /// What an error before the first slice means for a transfer that had `deadline` in all and
    /// `limit` to connect to the data port of a peer. A wait that only the transfer's own end cut
    /// short says nothing about the peer.
    pub(crate) fn of_connecting(
        error: &io::Error,
        (peer, port): (&str, SocketAddr),
        (limit, deadline): (Duration, Duration),
    ) -> Self {
        // An engine is called by its handshake port, which may be open when the other one is not.
        let reason = match peer == port.to_string() {
            true => error.to_string(),
            false => format!("{error}, at its data port {port}"),
        };
        let peer = peer.to_owned();
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => Self::NoSocket { peer, reason },
            // The kernel gives up after its own bound, which is longer than ours.
            None if error.kind() == io::ErrorKind::TimedOut && limit < CONNECT_DEADLINE => {
                Self::Deadline { peer, deadline }
            }
            _ => Self::Unreachable { peer, reason },
        }
    }
}

/// Whether the kernel has given a connection up because nothing came back. A deadline of our own
/// has no number of the kernel's.
fn is_silence(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN)
    )
}
