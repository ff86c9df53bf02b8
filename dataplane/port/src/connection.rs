//! One accepted connection as its port and its service see it.

use nix::sys::socket::{SockaddrStorage, getpeername};
use perigee_shard::{Environment, Stream};
use std::cell::Cell;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// An accepted connection with what its service keeps for it.
pub struct Connection<E: Environment, T> {
    environment: E,
    stream: E::Stream,
    /// `None` where there are no sockets, as in a simulation.
    address: Option<IpAddr>,
    heard: Cell<Duration>,
    is_known: Cell<bool>,
    /// What the service keeps.
    pub state: T,
}

impl<E: Environment, T> Connection<E, T> {
    pub(crate) fn new(environment: &E, stream: E::Stream, state: T) -> Self {
        Self {
            address: peer_address(&stream),
            heard: Cell::new(environment.now()),
            is_known: Cell::new(false),
            environment: environment.clone(),
            stream,
            state,
        }
    }

    /// The byte stream.
    pub fn stream(&self) -> &E::Stream {
        &self.stream
    }

    /// The machine this connection is on.
    pub fn environment(&self) -> &E {
        &self.environment
    }

    /// Where the peer connects from.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Notes activity: a whole request. Silent connections are closed first when there are too
    /// many.
    pub fn hear(&self) {
        self.heard.set(self.environment.now());
    }

    /// When the last request came.
    pub(crate) fn heard(&self) -> Duration {
        self.heard.get()
    }

    /// Notes that the peer has shown to be a member of the cluster. Connections of non-members are
    /// closed before those of members.
    pub fn recognize(&self) {
        self.is_known.set(true);
    }

    /// Whether the peer has shown to be a member.
    pub fn is_known(&self) -> bool {
        self.is_known.get()
    }
}

/// The peer's address; IPv4 in IPv6 clothes counts as IPv4.
pub(crate) fn peer_address(stream: &impl Stream) -> Option<IpAddr> {
    let socket = stream.socket()?;
    let peer = getpeername::<SockaddrStorage>(socket.as_raw_fd()).ok()?;
    let four = peer.as_sockaddr_in().map(|peer| IpAddr::V4(peer.ip()));
    let six = || peer.as_sockaddr_in6().map(|peer| IpAddr::V6(peer.ip()));
    four.or_else(six).map(|address| address.to_canonical())
}
