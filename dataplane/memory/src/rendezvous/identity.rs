//! Who is at the other end of a Unix socket.
//! Invariant: the kernel says so, not the peer.

use super::error::RendezvousError;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use std::os::unix::net::UnixStream;

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its process id when it connected.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
}

/// Who is at the other end, if it is our own user.
pub fn verify_peer(stream: &UnixStream) -> Result<PeerIdentity, RendezvousError> {
    let credentials = getsockopt(stream, PeerCredentials)?;
    let peer = PeerIdentity { pid: credentials.pid(), uid: credentials.uid() };
    require_user(peer, nix::unistd::geteuid().as_raw())
}

/// `peer`, if it runs as the user `ours`.
pub(crate) fn require_user(peer: PeerIdentity, ours: u32) -> Result<PeerIdentity, RendezvousError> {
    if peer.uid != ours {
        return Err(RendezvousError::ForeignUser { pid: peer.pid, theirs: peer.uid, ours });
    }
    Ok(peer)
}
