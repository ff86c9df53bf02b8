//! The name that an end gives itself if it is given none. Invariant: it is an address that the
//! other end can reach, as far as the routing table knows.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

/// An address of documentation, which is routed as the rest of the world is; nothing is sent to it.
const OUTSIDE: &str = "192.0.2.1:9";
const LOOPBACK: &str = "127.0.0.1";

/// The local address from which `peer` is reached; an empty one stands for the world.
pub(super) fn towards(peer: &str) -> String {
    let target = if peer.is_empty() {
        OUTSIDE.to_owned()
    } else if peer.contains(':') {
        peer.to_owned()
    } else {
        format!("{peer}:9")
    };
    // A network for storage or RDMA often has no route to the world.
    route(&target).or_else(of_an_interface).unwrap_or_else(|| LOOPBACK.to_owned())
}

/// The address of an interface that is up and has a link.
fn of_an_interface() -> Option<String> {
    perigee_discovery::interface_addresses(false).first().map(text)
}

fn text(address: &IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn route(target: &str) -> Option<String> {
    let target = target.to_socket_addrs().ok()?.next()?;
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    Some(text(&socket.local_addr().ok()?.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_from_loopback() {
        assert_eq!(towards("127.0.0.1:1234"), "127.0.0.1");
        assert_eq!(towards("127.0.0.1"), "127.0.0.1");
    }

    #[test]
    fn an_unknown_name_gives_an_address_all_the_same() {
        let own = of_an_interface().unwrap_or_else(|| LOOPBACK.to_owned());
        assert_eq!(towards("no-such-host.invalid:1"), own);
    }
}
