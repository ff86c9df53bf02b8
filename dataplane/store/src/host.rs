//! Who this host is, and under which name a client is known.

use crate::error::StoreError;
use crate::limits::CLIENT_PORTS;
use perigee_schemas::Identity;
use perigee_settings::SettingError;
use std::net::{IpAddr, SocketAddr};

pub(crate) fn random_identity() -> Result<Identity, StoreError> {
    let number = || getrandom::u64().map_err(|error| StoreError::System(error.to_string()));
    Ok(Identity::from_halves(number()?, number()?))
}

/// `host:port` of a client; a name without a port gets `port`, or one that is drawn. A host that is
/// the same for clients of all hosts (`localhost`, `0.0.0.0`) gives way to the address that peers
/// connect to.
pub(crate) fn client_name(
    local_hostname: &str,
    port: Option<u16>,
    announced: IpAddr,
) -> Result<String, StoreError> {
    let (host, port) = host_and_port(local_hostname, port)?;
    let is_taken = is_unspecified(&host) || is_loopback(&host) && !announced.is_loopback();
    let name = match is_taken {
        true => SocketAddr::new(announced, port).to_string(),
        false if host.contains(':') => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    debug_assert!(has_port(&name), "others find the port in a client's name");
    Ok(name)
}

fn is_unspecified(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
}

/// Whether a name says loopback itself, rather than being a host's name that happens to resolve to
/// it.
fn is_loopback(host: &str) -> bool {
    let first = host.split('.').next().unwrap_or_default();
    let words = ["localhost", "localhost4", "localhost6", "ip6-localhost"];
    words.iter().any(|word| first.eq_ignore_ascii_case(word))
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a name has a port of its own.
pub(crate) fn has_port(name: &str) -> bool {
    split_port(name.trim()).is_some()
}

fn host_and_port(local_hostname: &str, port: Option<u16>) -> Result<(String, u16), StoreError> {
    let name = local_hostname.trim();
    let refuse = |reason: &str| {
        StoreError::Setting(SettingError::new("local_hostname", local_hostname, reason))
    };
    if name.is_empty() {
        return Err(refuse("give the name or address by which other hosts reach this one"));
    }
    if let Some((_, port)) = split_port(name) {
        return match port.parse::<u16>() {
            Ok(port) if port > 0 => Ok((host_of(name).to_owned(), port)),
            _ => Err(refuse("the port is not a number from 1 to 65535")),
        };
    }
    Ok((host_of(name).to_owned(), port.map_or_else(any_port, Ok)?))
}

fn any_port() -> Result<u16, StoreError> {
    let random = getrandom::u64().map_err(|error| StoreError::System(error.to_string()))?;
    let count = CLIENT_PORTS.len() as u64;
    let at = usize::try_from(random % count).unwrap_or_default();
    Ok(CLIENT_PORTS.clone().nth(at).unwrap_or(*CLIENT_PORTS.start()))
}

/// The host part of a name.
pub(crate) fn host_of(name: &str) -> &str {
    let host = split_port(name).map_or(name, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn split_port(name: &str) -> Option<(&str, &str)> {
    let (host, port) = name.rsplit_once(':')?;
    let bare_v6 = host.contains(':') && !host.ends_with(']');
    (!bare_v6).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_name(name: &str, port: Option<u16>) -> Result<String, StoreError> {
        super::client_name(name, port, "10.0.0.4".parse().unwrap())
    }

    #[test]
    fn names_that_every_host_has_give_way_to_the_address_for_peers() {
        for name in ["localhost", "LOCALHOST", "127.0.0.1", "::1", "0.0.0.0", "[::]"] {
            assert_eq!(client_name(name, Some(9)).unwrap(), "10.0.0.4:9", "{name}");
        }
        assert_eq!(client_name("localhost:17001", None).unwrap(), "10.0.0.4:17001");
        let six = "2001:db8::4".parse().unwrap();
        assert_eq!(super::client_name("localhost:7", None, six).unwrap(), "[2001:db8::4]:7");
        let loopback = "127.0.0.1".parse().unwrap();
        let kept = super::client_name("localhost:7", None, loopback).unwrap();
        assert_eq!(kept, "localhost:7", "all of the cluster is on this host");
        assert_eq!(super::client_name("0.0.0.0:7", None, loopback).unwrap(), "127.0.0.1:7");
    }

    #[test]
    fn a_name_with_a_port_is_kept_and_one_without_gets_one() {
        assert_eq!(client_name("10.0.0.1:17001", Some(9)).unwrap(), "10.0.0.1:17001");
        assert_eq!(client_name("node-7", Some(9)).unwrap(), "node-7:9");
        let chosen = client_name("node-7", None).unwrap();
        let (host, port) = chosen.split_once(':').unwrap();
        assert_eq!(host, "node-7");
        assert!(CLIENT_PORTS.contains(&port.parse().unwrap()));
        assert!(client_name("fe80::1", None).unwrap().starts_with("[fe80::1]:"));
    }

    #[test]
    fn unusable_names_are_refused() {
        for name in ["", "  ", "host:0", "host:99999", "host:http"] {
            assert!(client_name(name, None).is_err(), "{name:?}");
        }
    }

    #[test]
    fn hosts_are_found_in_names() {
        assert_eq!(host_of("a:1"), "a");
        assert_eq!(host_of("[::1]:5"), "::1");
        assert_eq!(host_of("plain"), "plain");
    }
}
