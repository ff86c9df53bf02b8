//! The NIC behind an address of this host.

use crate::limits::ADDRESSES_MAX;
use nix::ifaddrs::getifaddrs;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};

/// Name of the interface that has this address; empty if none has. Remembered, because connections come and go.
pub fn device_of(address: IpAddr) -> String {
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

/// Name of the interface through which a peer is reached; empty if there is no way to it. Sends nothing.
pub fn device_towards(peer: SocketAddr) -> String {
    static KNOWN: Mutex<Option<HashMap<IpAddr, String>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(device) = known.get(&peer.ip()) {
        return device.clone();
    }
    let device = local_address_towards(peer)
        .map(device_of)
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
    let loopback = || address.is_loopback().then(|| "lo".to_owned());
    found
        .map(|interface| interface.interface_name)
        .or_else(loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_the_loopbacks_and_foreign_ones_nobodys() {
        assert_eq!(device_of("127.0.0.1".parse().unwrap()), "lo");
        assert_eq!(device_of("127.9.9.9".parse().unwrap()), "lo");
        assert_eq!(device_of("203.0.113.7".parse().unwrap()), "");
        assert_eq!(device_towards("127.0.0.1:9".parse().unwrap()), "lo");
    }
}
