//! Under which address this engine is announced to a metadata server. Its name need not be an address there, as with
//! Mooncake. Invariant: what is announced is an address that this host has, or one that the user wrote as digits.

use crate::limits::NAME_DEADLINE;
use crate::local_name::LocalName;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use perigee_discovery::{Settings, resolve};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

/// The address to announce: `MC_TCP_BIND_ADDRESS`, else the one that the name is, else the one of this host that the name
/// stands for, else that of the first interface which is up. The resolver is asked for [`NAME_DEADLINE`] at most.
pub(crate) fn outward(name: &LocalName, settings: &Settings) -> IpAddr {
    let written = name.host.parse::<IpAddr>().ok();
    let fixed = settings.bind_address.into_iter().chain(written);
    if let Some(address) = fixed.into_iter().find(|address| !address.is_unspecified()) {
        return address;
    }
    let own = addresses(settings.use_ipv6);
    // A host with one address needs no choice.
    let resolved = match own.len() {
        0 | 1 => Vec::new(),
        _ => resolve(&name.host, 0, Instant::now() + NAME_DEADLINE).unwrap_or_default(),
    };
    let resolved: Vec<IpAddr> = resolved.into_iter().map(|found| found.ip()).collect();
    let chosen = choose(&own, &resolved);
    match chosen {
        Some(address) => tracing::info!(name = name.host, %address, "Peers find this engine here"),
        None => tracing::warn!(
            name = name.host,
            "No interface but loopback is up: only this host finds this engine; set MC_TCP_BIND_ADDRESS to change that"
        ),
    }
    chosen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Of the host's addresses the first that the name stands for, or just the first.
fn choose(own: &[IpAddr], resolved: &[IpAddr]) -> Option<IpAddr> {
    let named = own.iter().find(|address| resolved.contains(address));
    named.or(own.first()).copied()
}

/// Addresses of the interfaces that are up, but loopback: those with a link before others, one family before the other,
/// then in the kernel's order.
fn addresses(ipv6_first: bool) -> Vec<IpAddr> {
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

/// The address of an interface, unless it means nothing without the name of a link at the other end.
pub(crate) fn routable(interface: &InterfaceAddress) -> Option<IpAddr> {
    let address = interface.address?;
    let v4 = address.as_sockaddr_in().map(|found| found.ip());
    let v6 = address.as_sockaddr_in6().map(|found| found.ip());
    let v6 = v6.filter(|found| !found.is_unicast_link_local());
    v4.map(IpAddr::V4).or(v6.map(IpAddr::V6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(host: &str, bind: Option<&str>) -> IpAddr {
        let settings = Settings {
            bind_address: bind.map(|text| text.parse().unwrap()),
            ..Settings::default()
        };
        outward(&LocalName::parse(host).unwrap(), &settings)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_that_was_written_is_announced_and_the_one_listened_on_before_it() {
        assert_eq!(found("192.0.2.7:5", None), ip("192.0.2.7"));
        assert_eq!(found("[2001:db8::7]", None), ip("2001:db8::7"));
        assert_eq!(found("192.0.2.7", Some("127.0.0.3")), ip("127.0.0.3"));
        assert_eq!(found("node-q1", Some("127.0.0.3")), ip("127.0.0.3"));
        assert_eq!(found("192.0.2.7", Some("0.0.0.0")), ip("192.0.2.7"));
    }

    #[test]
    fn names_without_an_address_and_localhost_get_one_of_this_host() {
        let outside = addresses(false);
        for host in ["no-such-host.invalid", "localhost", "0.0.0.0"] {
            let address = found(host, None);
            match outside.first() {
                Some(first) => assert_eq!(address, *first, "{host}"),
                None => assert!(address.is_loopback(), "{host}"),
            }
        }
    }

    #[test]
    fn a_name_of_one_of_several_interfaces_chooses_that_one() {
        let own = [ip("10.0.0.1"), ip("10.1.0.1"), ip("2001:db8::1")];
        assert_eq!(choose(&own, &[ip("10.1.0.1")]), Some(ip("10.1.0.1")));
        assert_eq!(choose(&own, &[ip("198.51.100.9")]), Some(ip("10.0.0.1")));
        assert_eq!(choose(&own, &[]), Some(ip("10.0.0.1")));
        assert_eq!(choose(&[], &[ip("127.0.0.1")]), None);
    }
}
