//! Sockets for the ring: creation, binding and the options that measured well.

use crate::operation::{Address, Operation};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrLike, SockaddrStorage, bind, getpeername,
    listen, setsockopt, socket, sockopt,
};
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

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
    /// No socket is to be had.
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

fn listen_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program has this port, choose another one",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need privilege",
        io::ErrorKind::AddrNotAvailable => "; this host has no such address",
        _ => "",
    }
}

/// A listening TCP socket. `shared` lets several shards listen on the same port.
///
/// # Errors
/// The port is taken or the address is not of this host.
pub fn listen_socket(address: SocketAddr, shared: bool) -> Result<OwnedFd, SocketError> {
    let fd = create(address)?;
    let prepared = (|| -> nix::Result<()> {
        setsockopt(&fd, sockopt::ReuseAddr, &true)?;
        if shared {
            setsockopt(&fd, sockopt::ReusePort, &true)?;
        }
        bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
        listen(&fd, Backlog::MAXALLOWABLE)
    })();
    match prepared {
        Ok(()) => Ok(fd),
        Err(errno) => Err(SocketError::Listen {
            address,
            source: errno.into(),
        }),
    }
}

/// A socket for connecting to `address`, and the operation that connects it.
///
/// # Errors
/// No socket is to be had.
pub fn connect_socket(address: SocketAddr) -> Result<(OwnedFd, Operation), SocketError> {
    let fd = create(address)?;
    let storage = SockaddrStorage::from(address);
    // SAFETY: `SockaddrStorage` is a transparent union that can be read as a whole `sockaddr_storage`.
    let raw = unsafe { *storage.as_ptr().cast::<libc::sockaddr_storage>() };
    let operation = Operation::Connect(fd.as_raw_fd(), Box::new(Address::new(raw, storage.len())));
    Ok((fd, operation))
}

fn create(address: SocketAddr) -> Result<OwnedFd, SocketError> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|errno| SocketError::Create(errno.into()))
}

/// Which congestion control a connection gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// One that suits the path: without pacing on this host, cubic elsewhere. BBR, the default of some hosts, halves
    /// large transfers on fast short paths.
    #[default]
    Automatic,
    /// The host's default.
    Host,
    /// This one, if the kernel allows it.
    Named(Arc<str>),
}

/// Sets the options of a connected socket: no Nagle delay, keep-alive, congestion control.
pub fn tune(fd: BorrowedFd<'_>, congestion: &Congestion) {
    let _ = setsockopt(&fd, sockopt::TcpNoDelay, &true);
    let _ = setsockopt(&fd, sockopt::KeepAlive, &true);
    let choose =
        |name: &str| setsockopt(&fd, sockopt::TcpCongestion, &OsString::from(name)).is_ok();
    match congestion {
        Congestion::Host => {}
        Congestion::Named(name) => {
            choose(name);
        }
        Congestion::Automatic if is_loopback(fd) => {
            choose("reno");
        }
        Congestion::Automatic => {
            let _ = choose("cubic") || choose("reno");
        }
    }
}

fn is_loopback(fd: BorrowedFd<'_>) -> bool {
    let Ok(peer) = getpeername::<SockaddrStorage>(fd.as_raw_fd()) else {
        return false;
    };
    peer.as_sockaddr_in()
        .is_some_and(|address| address.ip().is_loopback())
        || peer
            .as_sockaddr_in6()
            .is_some_and(|address| address.ip().is_loopback())
}

/// Ends both directions: every operation in flight on the socket completes at once.
pub fn shutdown(fd: BorrowedFd<'_>) {
    let _ = nix::sys::socket::shutdown(fd.as_raw_fd(), nix::sys::socket::Shutdown::Both);
}
