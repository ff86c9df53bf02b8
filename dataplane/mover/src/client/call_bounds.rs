//! What one blocking call may do: with which peer, and for how long. Invariant: it ends by its
//! deadline, and sooner if its side is closed or its caller breaks off.

use crate::error::PeerError;
use crate::reached_peer::ReachedPeer;
use perigee_schemas::Identity;
use perigee_shard::{Congestion, poll_interruption};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The bounds of one blocking call.
#[derive(Clone, Copy)]
pub(super) struct CallBounds<'a> {
    pub(super) peer: &'a ReachedPeer,
    /// Of this process.
    pub(super) identity: Identity,
    /// Congestion control of connections.
    pub(super) congestion: &'a Congestion,
    /// Whether both sides sum the bytes of each piece.
    pub(super) with_checksum: bool,
    /// When it must be over.
    pub(super) deadline: Instant,
    /// The time it has in all, for messages.
    pub(super) length: Duration,
    /// Whether this side has been closed since.
    pub(super) is_closed: &'a dyn Fn() -> bool,
}

impl CallBounds<'_> {
    pub(super) fn left(&self) -> Result<Duration, PeerError> {
        if let Some(end) = self.ends() {
            return Err(end);
        }
        match self.deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => {
                Err(PeerError::Deadline { peer: self.peer.name.to_string(), deadline: self.length })
            }
        }
    }

    pub(super) fn broken(&self, error: &io::Error) -> PeerError {
        PeerError::of_connection(error, &self.peer.name, self.length)
    }

    /// What an error of a connection that was to be there after `limit` means.
    pub(super) fn unreachable(
        &self,
        error: &io::Error,
        port: SocketAddr,
        limit: Duration,
    ) -> PeerError {
        PeerError::of_connecting(error, (&self.peer.name, port), (limit, self.length))
    }

    /// Why the call must end although its peer may still answer.
    pub(super) fn ends(&self) -> Option<PeerError> {
        match (self.is_closed)() {
            true => Some(PeerError::Closed),
            false => poll_interruption().then_some(PeerError::Canceled),
        }
    }
}
