//! Host names and network interfaces to addresses. Invariant: a name that does not resolve is an
//! error that lists what would.

use nix::ifaddrs::getifaddrs;
use perigee_flags::FlagError;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

/// First IPv4 address of a network interface.
pub(super) fn ipv4_of_interface(name: &str) -> Result<Ipv4Addr, FlagError> {
    let known = interfaces_with_ipv4()?;
    let found = known.iter().find(|(interface, _)| interface == name);
    found.map(|(_, address)| *address).ok_or_else(|| {
        let list: Vec<String> =
            known.iter().map(|(name, address)| format!("{name} ({address})")).collect();
        FlagError::Conflict(format!(
            "Setting `rpc_interface`: network interface `{name}` has no IPv4 address; interfaces \
             with one: {}",
            list.join(", ")
        ))
    })
}

fn interfaces_with_ipv4() -> Result<Vec<(String, Ipv4Addr)>, FlagError> {
    let interfaces = getifaddrs().map_err(|error| {
        FlagError::Conflict(format!(
            "Setting `rpc_interface`: the system does not list its interfaces ({error}); use \
             rpc_address instead"
        ))
    })?;
    let with_ipv4 = interfaces.filter_map(|interface| {
        let address = interface.address?.as_sockaddr_in()?.ip();
        Some((interface.interface_name, address))
    });
    Ok(with_ipv4.collect())
}

/// Socket address of a host (literal, bracketed literal or name) and port.
pub(super) fn resolve(host: &str, port: u16) -> Result<SocketAddr, FlagError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let unresolved = |cause: String| {
        FlagError::Conflict(format!(
            "Listen address `{host}` does not resolve ({cause}); give an address of this machine \
             or 0.0.0.0"
        ))
    };
    let mut found =
        (host, port).to_socket_addrs().map_err(|error| unresolved(error.to_string()))?;
    found.next().ok_or_else(|| unresolved("no address".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_interface_has_its_address() {
        assert_eq!(ipv4_of_interface("lo").unwrap(), Ipv4Addr::LOCALHOST);
    }

    #[test]
    fn unknown_interface_is_refused_with_the_known_ones() {
        let text = ipv4_of_interface("nosuch0").unwrap_err().to_string();
        assert!(text.contains("lo (127.0.0.1)"), "{text}");
    }

    #[test]
    fn literal_hosts_resolve_without_lookup() {
        assert_eq!(resolve("::", 1).unwrap(), "[::]:1".parse().unwrap());
        assert_eq!(resolve("[::1]", 2).unwrap(), "[::1]:2".parse().unwrap());
        assert_eq!(resolve("0.0.0.0", 3).unwrap(), "0.0.0.0:3".parse().unwrap());
    }

    #[test]
    fn host_with_a_port_inside_is_refused() {
        assert!(resolve("127.0.0.1:80", 3).is_err());
    }
}
