//! Sockets for the ring: creation, binding and the options that measured well.
#![expect(unsafe_code, reason = "it reads an address as the kernel has it")]

use crate::limits::CONNECT_LOOK;
use crate::operation::{Operation, SocketAddress, SocketHandle};
use crate::vanished::keep_alive;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockaddrLike, SockaddrStorage, recv};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why a socket could not be made ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The address cannot be listened on.
    #[error("Cannot listen on {address}: {source}{}", listen_hint(source))]
    Listen {
        /// The wanted address.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The socket cannot be created.
    #[error(
        "Cannot create a socket: {0}; raise the limit of open files (ulimit -n) if it is reached"
    )]
    Create(io::Error),
}

impl SocketError {
    /// Whether another socket has the port.
    pub fn is_address_in_use(&self) -> bool {
        match self {
            SocketError::Listen { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
            SocketError::Create(_) => false,
        }
    }
}

impl From<SocketError> for io::Error {
    /// The kernel's answer, by which its meaning is known.
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::Listen { source, .. } | SocketError::Create(source) => source,
        }
    }
}

fn listen_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program has this port, choose another one",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need privilege",
        io::ErrorKind::AddrNotAvailable => "; this host has no such address",
        _ => "",
    }
}

/// A listening TCP socket; connections it accepts inherit its options. `shared` lets several shards
/// listen on the same port.
///
/// # Errors
/// The port is taken or the address is not of this host.
pub fn listen_socket(
    address: SocketAddr,
    shared: bool,
    congestion: &Congestion,
) -> Result<OwnedFd, SocketError> {
    let socket = create(address, congestion)?;
    let prepared = (|| {
        socket.set_reuse_address(true)?;
        if shared {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(libc::SOMAXCONN)
    })();
    match prepared {
        Ok(()) => Ok(socket.into()),
        Err(source) => Err(SocketError::Listen { address, source }),
    }
}

/// A socket for connecting to `address`, and the operation that connects it.
///
/// # Errors
/// The socket cannot be created.
pub fn connect_socket(
    address: SocketAddr,
    congestion: &Congestion,
) -> Result<(SocketHandle, Operation), SocketError> {
    let socket = create(address, congestion)?;
    keep_alive(socket.as_fd());
    let fd = SocketHandle::new(socket.into());
    let storage = SockaddrStorage::from(address);
    // SAFETY: `SockaddrStorage` is a transparent union that can be read as a whole
    // `sockaddr_storage`.
    let raw = unsafe { *storage.as_ptr().cast::<libc::sockaddr_storage>() };
    let operation =
        Operation::Connect(fd.clone(), Box::new(SocketAddress::new(raw, storage.len())));
    Ok((fd, operation))
}

/// A data connection made on the calling thread, with the same options as a shard's. `is_given_up`
/// is asked now and then while it waits.
///
/// # Errors
/// The peer refuses or cannot be reached, `limit` has passed, or the wait was given up
/// ([`io::ErrorKind::Interrupted`]).
pub fn connect_blocking(
    address: SocketAddr,
    limit: Duration,
    congestion: &Congestion,
    is_given_up: impl Fn() -> bool,
) -> io::Result<TcpStream> {
    let end = Instant::now() + limit;
    let socket = create(address, congestion)?;
    keep_alive(socket.as_fd());
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
        Err(_) => await_connected(&socket, end, is_given_up)?,
        Ok(()) => {}
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

fn await_connected(
    socket: &Socket,
    end: Instant,
    is_given_up: impl Fn() -> bool,
) -> io::Result<()> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if is_given_up() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // Rounded up: a wait of zero milliseconds would spin.
        let step = left.min(CONNECT_LOOK) + Duration::from_millis(1);
        let step = PollTimeout::try_from(step).unwrap_or(PollTimeout::MAX);
        let mut wanted = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut wanted, step) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return socket.take_error()?.map_or(Ok(()), Err),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Which congestion control a connection gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// One that suits the path: without pacing on this host, cubic elsewhere. BBR, the default of
    /// some hosts, halves large transfers on fast short paths.
    #[default]
    Automatic,
    /// The host's default.
    Host,
    /// This one, if the kernel allows it.
    Named(Arc<str>),
}

impl Congestion {
    /// Whether the kernel lets this process use it.
    ///
    /// # Errors
    /// The kernel does not know the name, or allows it to others only.
    pub fn check(&self) -> io::Result<()> {
        let Self::Named(name) = self else {
            return Ok(());
        };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_congestion(name.as_bytes())
    }
}

/// A TCP socket with the options of data connections: no Nagle delay, keep-alive, congestion
/// control.
///
/// The congestion control is chosen here, before the socket listens or connects: a connection born
/// under BBR keeps the kernel's pacing when it is switched to another one.
fn create(address: SocketAddr, congestion: &Congestion) -> Result<Socket, SocketError> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .map_err(SocketError::Create)?;
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_keepalive(true);
    let choose = |name: &str| socket.set_tcp_congestion(name.as_bytes()).is_ok();
    match congestion {
        Congestion::Host => {}
        Congestion::Named(name) => {
            choose(name);
        }
        Congestion::Automatic if address.ip().is_loopback() => {
            choose("reno");
        }
        Congestion::Automatic => {
            let _ = choose("cubic") || choose("reno");
        }
    }
    Ok(socket)
}

/// Gives an accepted connection of this host what [`Congestion::Automatic`] means for it: a
/// listener on all addresses has the one for other hosts. Nothing is lost by switching then,
/// because that one does not pace.
pub fn suit_accepted(connection: BorrowedFd<'_>, congestion: &Congestion) {
    let socket = socket2::SockRef::from(&connection);
    let is_local = || {
        let peer = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback())
    };
    if *congestion == Congestion::Automatic && is_local() {
        let _ = socket.set_tcp_congestion(b"reno");
    }
}

/// Whether a connection on which nothing is awaited is still open and silent, as far as the kernel
/// has heard.
pub fn is_quiet(connection: BorrowedFd<'_>) -> bool {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
    matches!(recv(connection.as_raw_fd(), &mut [0; 1], flags), Err(Errno::EAGAIN))
}

/// Ends both directions: every operation in flight on the socket completes at once.
pub fn shutdown(fd: BorrowedFd<'_>) {
    let _ = nix::sys::socket::shutdown(fd.as_raw_fd(), nix::sys::socket::Shutdown::Both);
}
