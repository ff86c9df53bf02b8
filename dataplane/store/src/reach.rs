//! Where the data port listens and under which host peers reach it. Invariant: a client named after the loopback
//! interface opens no port to other hosts.

use crate::error::StoreError;
use crate::host::host_of;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};

/// A place to listen and the host to announce.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Address to listen on.
    pub(crate) listen: IpAddr,
    /// Host part of the endpoint, without brackets.
    pub(crate) announce: String,
}

impl Reach {
    /// The reach of the client `name`; `bind` is an address that was asked for.
    pub(crate) fn find(name: &str, bind: Option<IpAddr>, master: &str) -> Result<Self, StoreError> {
        let host = host_of(name);
        if let Some(ip) = bind.filter(|ip| !ip.is_unspecified()) {
            return Ok(Self::at(ip, ip.to_string()));
        }
        let own = addresses_of(host);
        let first = *own.first().ok_or_else(|| StoreError::Config {
            name: "local_hostname",
            value: name.to_owned(),
            reason: "it does not resolve on this host; use an address of this host, or set MC_TCP_BIND_ADDRESS"
                .to_owned(),
        })?;
        // Without a route the master is not reached anyway, and the call to it says so.
        let route = route_to(master).unwrap_or(first);
        Ok(Self::choose(name, &own, first, bind, route))
    }

    /// The reach of a client whose name has the addresses `own`; `route` is its address on the way to the master.
    fn choose(
        name: &str,
        own: &[IpAddr],
        first: IpAddr,
        bind: Option<IpAddr>,
        route: IpAddr,
    ) -> Self {
        let host = host_of(name);
        let any = bind.unwrap_or_else(|| unspecified_like(first));
        if first.is_unspecified() {
            return Self::at(any, route.to_string());
        }
        if own.iter().any(|ip| !ip.is_loopback()) {
            return Self::at(any, host.to_owned());
        }
        if bind.is_none() && (route.is_loopback() || is_loopback_name(host)) {
            if !route.is_loopback() {
                tracing::warn!(
                    name,
                    "Other hosts cannot read from this client; name it by an address they reach"
                );
            }
            return Self::at(first, host.to_owned());
        }
        Self::at(any, route.to_string())
    }

    fn at(ip: IpAddr, announce: String) -> Self {
        Self {
            listen: ip,
            announce,
        }
    }
}

fn addresses_of(host: &str) -> Vec<IpAddr> {
    let found = (host, 0).to_socket_addrs();
    found.map_or_else(|_| Vec::new(), |found| found.map(|at| at.ip()).collect())
}

/// Whether the name says loopback itself, rather than being a host's name that happens to resolve to it.
fn is_loopback_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn unspecified_like(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The local address of the route to `host:port`: a datagram socket that is connected picks one without a packet.
fn route_to(address: &str) -> io::Result<IpAddr> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let target = address.to_socket_addrs()?.next().ok_or_else(missing)?;
    let socket = UdpSocket::bind((unspecified_like(target.ip()), 0))?;
    socket.connect(target)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: &str = "127.0.0.1:50051";

    fn find(name: &str, bind: Option<&str>) -> (String, String) {
        let bind = bind.map(|ip| ip.parse().unwrap());
        let reach = Reach::find(name, bind, MASTER).unwrap();
        (reach.listen.to_string(), reach.announce)
    }

    fn pair(listen: &str, announce: &str) -> (String, String) {
        (listen.to_owned(), announce.to_owned())
    }

    #[test]
    fn loopback_names_stay_on_loopback() {
        assert_eq!(find("127.0.0.1:5", None), pair("127.0.0.1", "127.0.0.1"));
        assert_eq!(find("localhost:5", None).1, "localhost");
        let listen: IpAddr = find("localhost:5", None).0.parse().unwrap();
        assert!(listen.is_loopback());
    }

    #[test]
    fn other_names_are_announced_and_every_interface_is_listened_on() {
        assert_eq!(find("192.0.2.7:5", None), pair("0.0.0.0", "192.0.2.7"));
        assert_eq!(find("[2001:db8::7]:5", None), pair("::", "2001:db8::7"));
    }

    #[test]
    fn an_address_that_was_asked_for_is_used_for_both() {
        let asked = find("192.0.2.7:5", Some("192.0.2.9"));
        assert_eq!(asked, pair("192.0.2.9", "192.0.2.9"));
        let any = find("192.0.2.7:5", Some("0.0.0.0"));
        assert_eq!(any, pair("0.0.0.0", "192.0.2.7"));
    }

    /// With a master on another host, reached from 192.0.2.4.
    fn far(name: &str, own: &str) -> (String, String) {
        let own: IpAddr = own.parse().unwrap();
        let reach = Reach::choose(name, &[own], own, None, "192.0.2.4".parse().unwrap());
        (reach.listen.to_string(), reach.announce)
    }

    #[test]
    fn a_host_name_that_means_loopback_is_announced_as_the_route_to_a_master_elsewhere() {
        // Debian gives a host's own name the address 127.0.1.1, which other hosts take for themselves.
        assert_eq!(far("worker-3:5", "127.0.1.1"), pair("0.0.0.0", "192.0.2.4"));
        assert_eq!(far("0.0.0.0:5", "0.0.0.0"), pair("0.0.0.0", "192.0.2.4"));
    }

    #[test]
    fn a_client_named_loopback_opens_no_port_even_if_its_master_is_elsewhere() {
        assert_eq!(
            far("127.0.0.1:5", "127.0.0.1"),
            pair("127.0.0.1", "127.0.0.1")
        );
        assert_eq!(
            far("localhost:5", "127.0.0.1"),
            pair("127.0.0.1", "localhost")
        );
    }

    #[test]
    fn a_name_with_an_address_of_its_own_is_announced_to_a_master_elsewhere() {
        assert_eq!(far("worker-3:5", "192.0.2.9"), pair("0.0.0.0", "worker-3"));
    }

    #[test]
    fn an_unspecified_name_is_announced_as_the_route_to_the_master() {
        assert_eq!(find("0.0.0.0:5", None), pair("0.0.0.0", "127.0.0.1"));
    }
}
