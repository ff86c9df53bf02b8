//! Where this process listens and under which address its peers reach it: the same for stores,
//! nodes and engines.
//! Invariant: a loopback address is announced only if every service of the process is on this host
//! and answers nowhere but on loopback.

use crate::address::{resolve, split};
use crate::limits::{
    OWN_NAME_DEADLINE, OWN_PORT_DEADLINE, OWN_PORTS_TRIED, SERVICE_NAMES_DEADLINE,
};
use crate::settings::DiscoverySettings;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Instant;

/// Port to look for a route with; no packet is sent to it.
const ANY_PORT: u16 = 9;

/// An address to listen on, and the one that peers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// Address to listen on; an unspecified one means all of the host.
    pub listen: IpAddr,
    /// Address that peers connect to.
    pub announced: IpAddr,
}

/// What this host looks like from inside.
#[derive(Debug, Default)]
struct HostAddresses {
    /// Addresses of its interfaces that are up, without loopback.
    own: Vec<IpAddr>,
    /// Its addresses on the way to the services it uses, in the order of the services.
    routes: Vec<IpAddr>,
}

impl OwnAddress {
    /// The address of a process called `name` (a host, without a port) that uses `services`
    /// (`host:port` each).
    ///
    /// In this order: `MC_TCP_BIND_ADDRESS`, the name if it is an address, the address of this host
    /// that the name stands for, the address of this host towards the first service that other
    /// hosts reach, the first interface that is up. Names of the loopback interface (`localhost`,
    /// `127.0.0.1`, and Debian's `127.0.1.1` for a host's own name) stand for no address of their
    /// own: they are used only if all services listen on loopback alone.
    pub fn find(name: &str, services: &[String], settings: &DiscoverySettings) -> Self {
        let named = addresses_of(name, Instant::now() + OWN_NAME_DEADLINE);
        let until = Instant::now() + SERVICE_NAMES_DEADLINE;
        let own = interface_addresses(settings.use_ipv6);
        let route = |service: &String| {
            let (host, port) = split(service)?;
            let route = addresses_of(host, until).into_iter().find_map(route_to)?;
            let outside = port.filter(|_| route.is_loopback()).and_then(|port| open(&own, port));
            Some(outside.unwrap_or(route))
        };
        let routes = services.iter().filter_map(route).collect();
        let host = HostAddresses { own, routes };
        let found = host.choose(name, &named, settings.bind_address);
        if host.is_foreign(&named) {
            tracing::warn!(
                name,
                announced = %found.announced,
                "The local host name is not an address of this host; correct it, or peers may look for this process elsewhere"
            );
        } else {
            tracing::info!(name, announced = %found.announced, listen = %found.listen, "Peers reach this process here");
        }
        found
    }
}

impl HostAddresses {
    /// The address of a process whose name has the addresses `named`.
    fn choose(&self, name: &str, named: &[IpAddr], bind: Option<IpAddr>) -> OwnAddress {
        if let Some(fixed) = bind.filter(|bind| !bind.is_unspecified()) {
            return at(fixed, fixed);
        }
        let own = named.iter().copied().filter(|ip| self.own.contains(ip));
        let own: Vec<IpAddr> = own.collect();
        let on_route = own.iter().find(|ip| self.routes.contains(ip));
        let written = name.parse().ok().filter(|ip| is_outside(*ip));
        let named_itself = written.or(on_route.or(own.first()).copied());
        if let Some(announced) = named_itself {
            return at(bind.unwrap_or(all_like(announced)), announced);
        }
        let is_local = named.iter().any(|ip| ip.is_loopback());
        let route = self.routes.iter().copied().find(|ip| is_outside(*ip));
        match (route, bind) {
            (Some(route), None) if is_local => at(route, route),
            (Some(route), bind) => at(bind.unwrap_or(all_like(route)), route),
            (None, None) if is_local => {
                let loopback = loopback_of(named);
                at(loopback, loopback)
            }
            (None, bind) => {
                let first = self.own.first().or(self.routes.first());
                let announced = first.copied().unwrap_or(Ipv4Addr::LOCALHOST.into());
                at(bind.unwrap_or(all_like(announced)), announced)
            }
        }
    }

    /// Whether a name has addresses, and none of them is one of this host.
    fn is_foreign(&self, named: &[IpAddr]) -> bool {
        let elsewhere = |ip: &IpAddr| is_outside(*ip) && !self.own.contains(ip);
        !named.is_empty() && named.iter().all(elsewhere)
    }
}

/// The addresses of a name, as far as the resolver knows any by then.
fn addresses_of(host: &str, until: Instant) -> Vec<IpAddr> {
    let found = resolve(host, ANY_PORT, until).unwrap_or_default();
    found.into_iter().map(|found| found.ip()).collect()
}

fn at(listen: IpAddr, announced: IpAddr) -> OwnAddress {
    OwnAddress { listen, announced }
}

/// Whether other hosts may reach it.
fn is_outside(ip: IpAddr) -> bool {
    let link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !ip.is_loopback() && !ip.is_unspecified() && !link_local
}

/// The loopback address of a name: IPv4 where there is a choice, because containers often lack
/// `::1`.
fn loopback_of(named: &[IpAddr]) -> IpAddr {
    let mut loopback = named.iter().filter(|ip| ip.is_loopback());
    let v4 = loopback.clone().find(|ip| ip.is_ipv4());
    let found = v4.or(loopback.next()).copied();
    found.unwrap_or(Ipv4Addr::LOCALHOST.into())
}

fn all_like(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The local address of the route to `target`: a datagram socket that is connected picks one
/// without a packet.
fn route_to(target: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((all_like(target), 0)).ok()?;
    socket.connect(SocketAddr::new(target, ANY_PORT)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The first of this host's addresses at which the port of a service on loopback answers, too, so
/// that other hosts may use it.
fn open(own: &[IpAddr], port: u16) -> Option<IpAddr> {
    let answers = |ip: &IpAddr| {
        TcpStream::connect_timeout(&SocketAddr::new(*ip, port), OWN_PORT_DEADLINE).is_ok()
    };
    own.iter().copied().take(OWN_PORTS_TRIED).find(answers)
}

/// Addresses of the interfaces that are up, but loopback: those with a link before others, one
/// family before the other, then in the kernel's order.
pub fn interface_addresses(ipv6_first: bool) -> Vec<IpAddr> {
    let Ok(interfaces) = getifaddrs() else {
        return Vec::new();
    };
    let is_outside = |interface: &InterfaceAddress| {
        let flags = interface.flags;
        flags.contains(InterfaceFlags::IFF_UP) && !flags.contains(InterfaceFlags::IFF_LOOPBACK)
    };
    let with_link = |interface: InterfaceAddress| {
        let has_link = interface.flags.contains(InterfaceFlags::IFF_RUNNING);
        Some((has_link, routable(&interface)?))
    };
    let outside = interfaces.filter(is_outside);
    let mut found: Vec<(bool, IpAddr)> = outside.filter_map(with_link).collect();
    found.sort_by_key(|(has_link, address)| (!has_link, address.is_ipv6() != ipv6_first));
    found.into_iter().map(|(_, address)| address).collect()
}

/// The address of an interface, unless it means nothing without the name of a link at the other
/// end.
pub fn routable(interface: &InterfaceAddress) -> Option<IpAddr> {
    let address = interface.address?;
    let v4 = address.as_sockaddr_in().map(|found| found.ip());
    let v6 = address.as_sockaddr_in6().map(|found| found.ip());
    let v6 = v6.filter(|found| !found.is_unicast_link_local());
    v4.map(IpAddr::V4).or(v6.map(IpAddr::V6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| ip(text)).collect()
    }

    /// A pod with two interfaces, and its addresses towards master and metadata server.
    fn pod(routes: &[&str]) -> HostAddresses {
        HostAddresses { own: ips(&["10.0.0.4", "192.168.0.4"]), routes: ips(routes) }
    }

    fn pair(listen: &str, announced: &str) -> OwnAddress {
        at(ip(listen), ip(announced))
    }

    #[test]
    fn a_loopback_name_becomes_the_address_towards_a_service_elsewhere() {
        let local = [
            ("localhost", &["::1", "127.0.0.1"][..]),
            ("127.0.0.1", &["127.0.0.1"]),
            ("worker-3", &["127.0.1.1"]),
        ];
        for (name, named) in local {
            let towards_master = pod(&["192.168.0.4", "10.0.0.4"]).choose(name, &ips(named), None);
            assert_eq!(towards_master, pair("192.168.0.4", "192.168.0.4"), "{name}");
            let towards_metadata = pod(&["127.0.0.1", "10.0.0.4"]).choose(name, &ips(named), None);
            assert_eq!(towards_metadata, pair("10.0.0.4", "10.0.0.4"), "{name}");
        }
    }

    #[test]
    fn a_loopback_name_opens_no_port_to_others_if_all_services_are_on_loopback() {
        let all = pod(&["127.0.0.1", "127.0.0.1"]);
        let both = ips(&["::1", "127.0.0.1"]);
        assert_eq!(all.choose("localhost", &both, None), pair("127.0.0.1", "127.0.0.1"));
        let six = ips(&["::1"]);
        assert_eq!(all.choose("::1", &six, None), pair("::1", "::1"));
    }

    #[test]
    fn a_bind_address_comes_first_and_an_unspecified_one_only_widens() {
        let bind = Some(ip("10.0.0.4"));
        for name in ["localhost", "192.0.2.7", "no-such-host.invalid"] {
            let found = pod(&["192.168.0.4"]).choose(name, &[], bind);
            assert_eq!(found, pair("10.0.0.4", "10.0.0.4"), "{name}");
        }
        let any = Some(ip("0.0.0.0"));
        let local = ips(&["127.0.0.1"]);
        let found = pod(&["192.168.0.4"]).choose("localhost", &local, any);
        assert_eq!(found, pair("0.0.0.0", "192.168.0.4"));
    }

    #[test]
    fn written_addresses_are_announced_and_every_interface_is_listened_on() {
        let found = pod(&["192.168.0.4"]).choose("192.0.2.7", &ips(&["192.0.2.7"]), None);
        assert_eq!(found, pair("0.0.0.0", "192.0.2.7"));
        let found = pod(&[]).choose("2001:db8::7", &ips(&["2001:db8::7"]), None);
        assert_eq!(found, pair("::", "2001:db8::7"));
    }

    #[test]
    fn a_name_of_this_host_is_announced_as_its_address_on_the_route() {
        let named = ips(&["10.0.0.4", "192.168.0.4"]);
        let found = pod(&["192.168.0.4"]).choose("worker-3", &named, None);
        assert_eq!(found, pair("0.0.0.0", "192.168.0.4"));
        let found = pod(&["127.0.0.1"]).choose("worker-3", &named, None);
        assert_eq!(found, pair("0.0.0.0", "10.0.0.4"));
    }

    #[test]
    fn unspecified_unknown_and_foreign_names_are_announced_as_the_route_or_the_first_interface() {
        for (name, named) in [
            ("0.0.0.0", ips(&["0.0.0.0"])),
            ("no-such-host.invalid", Vec::new()),
            ("service", ips(&["198.51.100.9"])),
        ] {
            let found = pod(&["192.168.0.4"]).choose(name, &named, None);
            assert_eq!(found, pair("0.0.0.0", "192.168.0.4"), "{name}");
            let found = pod(&["127.0.0.1"]).choose(name, &named, None);
            assert_eq!(found, pair("0.0.0.0", "10.0.0.4"), "{name}");
        }
        let bare = HostAddresses::default().choose("0.0.0.0", &ips(&["0.0.0.0"]), None);
        assert_eq!(bare, pair("0.0.0.0", "127.0.0.1"));
    }

    #[test]
    fn only_names_with_addresses_of_other_hosts_are_foreign() {
        let pod = pod(&[]);
        assert!(pod.is_foreign(&ips(&["198.51.100.9"])));
        for own in [&["127.0.0.1"][..], &["0.0.0.0"], &["198.51.100.9", "10.0.0.4"], &[]] {
            assert!(!pod.is_foreign(&ips(own)), "{own:?}");
        }
    }

    #[test]
    fn a_service_beside_the_process_is_on_loopback_only_if_it_answers_nowhere_else() {
        let Some(outside) = interface_addresses(false).into_iter().find(IpAddr::is_ipv4) else {
            return;
        };
        let settings = DiscoverySettings::default();
        for (listens, announced) in [("0.0.0.0", outside), ("127.0.0.1", ip("127.0.0.1"))] {
            let service = std::net::TcpListener::bind((listens, 0)).unwrap();
            let services = [format!("127.0.0.1:{}", service.local_addr().unwrap().port())];
            let found = OwnAddress::find("localhost", &services, &settings);
            assert_eq!(found, at(announced, announced), "{listens}");
        }
    }

    #[test]
    fn the_route_to_loopback_is_loopback() {
        assert_eq!(route_to(ip("127.0.0.1")), Some(ip("127.0.0.1")));
    }
}
