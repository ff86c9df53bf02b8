//! Which of this host's addresses others reach it by. Invariant: nothing is sent to find out.

use crate::limits::PROBE_DEADLINE;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};

/// The local address of the route to `master` (`host:port`).
///
/// A datagram socket that is connected picks a route and thereby an address, without a packet.
pub(crate) fn local_address_towards(master: &str) -> io::Result<IpAddr> {
    let target = resolve(master)?;
    let any: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(target)?;
    Ok(socket.local_addr()?.ip())
}

/// Whether somebody accepts connections at `address` (`host:port`).
pub(crate) fn probe(address: &str) -> io::Result<()> {
    TcpStream::connect_timeout(&resolve(address)?, PROBE_DEADLINE).map(drop)
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    address.to_socket_addrs()?.next().ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_master_on_loopback_is_reached_from_loopback() {
        let address = local_address_towards("127.0.0.1:50051").unwrap();
        assert_eq!(address, IpAddr::V4(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn a_name_without_address_is_an_error() {
        assert!(local_address_towards("no-such-host.invalid:1").is_err());
    }

    #[test]
    fn only_a_port_that_is_listened_on_answers_a_probe() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert!(probe(&address).is_ok());
        drop(listener);
        assert!(probe(&address).is_err());
    }
}
