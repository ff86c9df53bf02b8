//! The NIC behind an address of this host. Invariant: what goes to one of the host's own addresses
//! goes over the loopback, whichever NIC has that address.

use crate::limits::ADDRESSES_MAX;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{SockaddrLike, SockaddrStorage, getpeername, getsockname};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// The loopback interface's name.
const LOOPBACK: &str = "lo";

/// Name of the interface that a connected socket's bytes go over; empty if that is unknown.
pub fn device_of_socket(socket: Option<BorrowedFd<'_>>) -> String {
    let ends = socket.and_then(ends_of);
    ends.map_or_else(String::new, |(own, peer)| device_between(own, peer))
}

/// Name of the interface between an address of this host and another one.
pub(crate) fn device_between(own: IpAddr, peer: IpAddr) -> String {
    match device_of(peer) {
        foreign if foreign.is_empty() => device_of(own),
        _ => LOOPBACK.to_owned(),
    }
}

/// Own and peer's address of a connected socket.
pub(crate) fn ends_of(socket: BorrowedFd<'_>) -> Option<(IpAddr, IpAddr)> {
    let own = ip_of(&getsockname::<SockaddrStorage>(socket.as_raw_fd()).ok()?)?;
    let peer = ip_of(&getpeername::<SockaddrStorage>(socket.as_raw_fd()).ok()?)?;
    Some((own, peer))
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    address.family()?;
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    let v6 = address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip()));
    v4.or(v6).map(|ip| ip.to_canonical())
}

/// Name of the interface that has this address; empty if none has. Remembered, because connections
/// come and go.
fn device_of(address: IpAddr) -> String {
    static KNOWN: Mutex<Option<HashMap<IpAddr, String>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(device) = known.get(&address) {
        return device.clone();
    }
    let device = look_up(address).unwrap_or_default();
    if known.len() >= ADDRESSES_MAX {
        known.clear();
    }
    known.insert(address, device.clone());
    device
}

/// Name of the interface through which a peer is reached; empty if there is no way to it. Sends
/// nothing.
pub fn device_towards(peer: SocketAddr) -> String {
    static KNOWN: Mutex<Option<HashMap<IpAddr, String>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(device) = known.get(&peer.ip()) {
        return device.clone();
    }
    let device = local_address_towards(peer)
        .map(|own| device_between(own, peer.ip().to_canonical()))
        .unwrap_or_default();
    if known.len() >= ADDRESSES_MAX {
        known.clear();
    }
    known.insert(peer.ip(), device.clone());
    device
}

/// Connecting a datagram socket only chooses the address it would send from.
fn local_address_towards(peer: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn look_up(address: IpAddr) -> Option<String> {
    let has = |interface: &nix::ifaddrs::InterfaceAddress| {
        let own = interface.address.as_ref()?;
        let v4 = own.as_sockaddr_in().map(|own| IpAddr::V4(own.ip()));
        let v6 = own.as_sockaddr_in6().map(|own| IpAddr::V6(own.ip()));
        Some(v4 == Some(address) || v6 == Some(address))
    };
    let mut interfaces = getifaddrs().ok()?;
    let found = interfaces.find(|interface| has(interface) == Some(true));
    // All of 127.0.0.0/8 is the loopback's.
    let loopback = || address.is_loopback().then(|| LOOPBACK.to_owned());
    found.map(|interface| interface.interface_name).or_else(loopback)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn loopback_addresses_are_the_loopbacks_and_foreign_ones_nobodys() {
        assert_eq!(device_of("127.0.0.1".parse().unwrap()), "lo");
        assert_eq!(device_of("127.9.9.9".parse().unwrap()), "lo");
        assert_eq!(device_of("203.0.113.7".parse().unwrap()), "");
        assert_eq!(device_towards("127.0.0.1:9".parse().unwrap()), "lo");
    }

    /// An address of this host that is not the loopback's, and its NIC.
    fn own_address() -> (IpAddr, String) {
        let mut interfaces = getifaddrs().unwrap();
        let found = interfaces.find_map(|interface| {
            let address = interface.address?;
            let address = IpAddr::V4(address.as_sockaddr_in()?.ip());
            (!address.is_loopback()).then_some((address, interface.interface_name))
        });
        found.expect(
            "an interface with an IPv4 address beside the loopback one; add one with `ip addr add`",
        )
    }

    #[test]
    fn traffic_to_an_own_address_counts_on_the_loopback() {
        let (own, device) = own_address();
        assert_eq!(device_of(own), device);
        assert_eq!(device_between(own, "203.0.113.7".parse().unwrap()), device);
        assert_eq!(device_between(own, own), "lo");
        assert_eq!(device_towards((own, 9).into()), "lo");
        let listener = TcpListener::bind((own, 0)).unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        for side in [&one, &other] {
            assert_eq!(device_of_socket(Some(side.as_fd())), "lo");
        }
        assert_eq!(device_of_socket(Some(listener.as_fd())), "", "no peer");
    }
}
