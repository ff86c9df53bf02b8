//! Sockets in the abstract namespace: named, but without a file that could be left behind.
//! Invariant: any process may take such a name, so it proves nothing; both ends call `verify_peer`.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, socket};

use super::error::RendezvousError;
use crate::limits::{ABSTRACT_NAME_BYTES_MAX, CONNECT_RETRY_MS};

/// Listens under `name`.
pub fn listen(name: &str) -> Result<UnixListener, RendezvousError> {
    check_name(name)?;
    let address = SocketAddr::from_abstract_name(name.as_bytes())?;
    Ok(UnixListener::bind_addr(&address)?)
}

/// Connects to the listener `name` and makes sure that it is our own user's.
pub fn connect(name: &str, deadline: Instant) -> Result<UnixStream, RendezvousError> {
    check_name(name)?;
    let address = UnixAddr::new_abstract(name.as_bytes())?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    loop {
        match nix::sys::socket::connect(socket.as_raw_fd(), &address) {
            Ok(()) => break,
            // The backlog is full, and no event tells when it no longer is.
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if Instant::now() >= deadline {
            return Err(RendezvousError::Deadline);
        }
        thread::sleep(Duration::from_millis(CONNECT_RETRY_MS));
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    super::identity::verify_peer(&stream)?;
    Ok(stream)
}

fn check_name(name: &str) -> Result<(), RendezvousError> {
    if (1..=ABSTRACT_NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(RendezvousError::Name { name: name.to_owned() })
}
