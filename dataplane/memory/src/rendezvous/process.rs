//! A handle on the process at the other end of a socket.
//! Invariant: it names that process for good; a process id that is used again does not deceive it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::identity::verify_peer;

/// Names the peer's process; `poll` finds it readable when the process has ended, even while a
/// child still holds the socket. `None` on kernels that have no such handles.
pub(crate) fn peer_process(stream: &UnixStream) -> Option<OwnedFd> {
    by_socket(stream).or_else(|| by_number(stream))
}

/// Linux 6.5 and later.
fn by_socket(stream: &UnixStream) -> Option<OwnedFd> {
    let mut raw: libc::c_int = -1;
    let mut length = size_of_val(&raw) as libc::socklen_t;
    // SAFETY: the option is one integer, and both pointers name one that lives through the call.
    let status = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut raw).cast(),
            &raw mut length,
        )
    };
    // SAFETY: on success the descriptor is new and ours.
    (status == 0 && raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) })
}

/// The process could have ended and its number been given away since it connected; then its socket
/// has ended, too, which the holder of the socket checks.
fn by_number(stream: &UnixStream) -> Option<OwnedFd> {
    let peer = verify_peer(stream).ok().filter(|peer| peer.pid > 0)?;
    // SAFETY: the call takes two integers and touches no memory.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, peer.pid, 0) };
    let raw = libc::c_int::try_from(raw).ok().filter(|raw| *raw >= 0)?;
    // SAFETY: the descriptor is new and ours.
    Some(unsafe { OwnedFd::from_raw_fd(raw) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;

    #[test]
    fn both_ways_name_a_living_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        for handle in [by_socket(&one), by_number(&one)].into_iter().flatten() {
            let mut wanted = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
            assert_eq!(poll(&mut wanted, PollTimeout::ZERO), Ok(0), "we live");
        }
        assert!(peer_process(&one).is_some());
    }
}
