//! Several NICs for sockets: an engine with configured interfaces announces an address of each, and
//! its peers spread their connections over them. Invariant: every address is checked to lead to the
//! same run of the peer when it is used.

use crate::limits::PEER_ADDRESSES_MAX;
use crate::local_name::LocalName;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use perigee_discovery::{Extra, routable};
use perigee_topology::Selection;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};

/// Name of the document's field with the addresses of the data port, one per interface.
const FIELD: &str = "data_endpoints";

/// Writes the addresses of the named interfaces into a document. RDMA devices have none.
pub(crate) fn announce(devices: &str, port: u16, extra: &mut Extra) {
    let addresses = addresses_of(&names_in(devices), &interfaces());
    if addresses.is_empty() {
        return;
    }
    let text = |address: IpAddr| Value::String(SocketAddr::new(address, port).to_string());
    let list = addresses.into_iter().take(PEER_ADDRESSES_MAX).map(text).collect();
    extra.unknown.insert(FIELD.to_owned(), Value::Array(list));
}

/// The addresses that a peer announces; none if it leaves the choice to its name.
pub(crate) fn announced(extra: &Extra) -> Vec<SocketAddr> {
    let listed = extra.unknown.get(FIELD).and_then(Value::as_array);
    let read = |value: &Value| value.as_str()?.parse().ok();
    listed.into_iter().flatten().filter_map(read).take(PEER_ADDRESSES_MAX).collect()
}

/// A host, or a host and port, that the peer at `name` announces. A peer that calls itself by a
/// name of loopback and was asked elsewhere is meant where it was asked.
pub(crate) fn seen_from(name: &str, announced: &str) -> String {
    let (Ok(asked), Ok(own)) = (LocalName::parse(name), LocalName::parse(announced)) else {
        return announced.to_owned();
    };
    if !own.is_loopback() || asked.is_loopback() {
        return announced.to_owned();
    }
    own.port.map_or(asked.host.clone(), |port| asked.with_port(port))
}

/// Says which names of a list that is meant for TCP are no interfaces with an address.
pub(crate) fn warn_of_unknown(devices: &str) {
    let here = interfaces();
    let unknown = unknown_in(&names_in(devices), &here);
    if unknown.is_empty() {
        return;
    }
    let mut here: Vec<&str> = here.iter().map(|(name, _)| name.as_str()).collect();
    here.dedup();
    tracing::warn!(
        names = unknown.join(","),
        interfaces = here.join(","),
        "No interfaces with an address have these names, and RDMA is not asked for: connections do not use them. Name \
         interfaces of this host, or write protocol rdma for RDMA devices"
    );
}

fn names_in(devices: &str) -> Vec<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let asked = Selection::new(devices, None, &variable).map(|selection| selection.asked());
    asked.unwrap_or_default()
}

fn unknown_in(names: &[String], interfaces: &[(String, IpAddr)]) -> Vec<String> {
    let is_known = |name: &&String| interfaces.iter().any(|(other, _)| other == *name);
    names.iter().filter(|name| !is_known(name)).cloned().collect()
}

/// The interfaces of this host, one entry for each address.
fn interfaces() -> Vec<(String, IpAddr)> {
    let Ok(interfaces) = getifaddrs() else {
        return Vec::new();
    };
    let with_address = |interface: InterfaceAddress| {
        let address = routable(&interface)?;
        Some((interface.interface_name, address))
    };
    interfaces.filter_map(with_address).collect()
}

/// The first address of each interface that has one, in the order of the names.
fn addresses_of(names: &[String], interfaces: &[(String, IpAddr)]) -> Vec<IpAddr> {
    let first = |name: &String| interfaces.iter().find(|(other, _)| other == name);
    names.iter().filter_map(first).map(|(_, address)| *address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_calls_itself_loopback_is_where_it_was_asked() {
        for (name, announced, meant) in [
            ("10.0.0.2:16037", "localhost:15001", "10.0.0.2:15001"),
            ("10.0.0.2:16037", "127.0.0.1:15001", "10.0.0.2:15001"),
            ("[fd00::2]:16037", "[::1]:15001", "[fd00::2]:15001"),
            ("worker-3:16037", "localhost", "worker-3"),
            ("localhost:16037", "localhost:15001", "localhost:15001"),
            ("127.0.0.1:16037", "127.0.0.1:15001", "127.0.0.1:15001"),
            ("10.0.0.2:16037", "10.0.0.7:15001", "10.0.0.7:15001"),
        ] {
            assert_eq!(seen_from(name, announced), meant, "{name} {announced}");
        }
    }

    #[test]
    fn a_name_without_an_address_is_unknown() {
        let here = [("eth0".to_owned(), IpAddr::from([10, 0, 0, 7]))];
        let names = ["eth0", "ethX", "mlx5_0"].map(str::to_owned);
        assert_eq!(unknown_in(&names, &here), ["ethX", "mlx5_0"]);
        assert_eq!(unknown_in(&names[..1], &here), [""; 0]);
        assert!(unknown_in(&names_in("lo"), &interfaces()).is_empty());
    }

    #[test]
    fn named_interfaces_are_announced_and_read_back_and_others_are_not() {
        let mut extra = Extra::new("0");
        announce("", 7, &mut extra);
        announce("no-such-interface,mlx5_0", 7, &mut extra);
        assert!(announced(&extra).is_empty());
        announce("lo", 7, &mut extra);
        assert_eq!(announced(&extra), ["127.0.0.1:7".parse().unwrap()]);
    }
}
