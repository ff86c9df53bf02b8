//! Who this host is, and under which name a client is known.

use crate::error::StoreError;
use crate::limits::CLIENT_PORTS;
use perigee_schemas::Identity;

/// A random identity.
pub(crate) fn random_identity() -> Result<Identity, StoreError> {
    let number = || getrandom::u64().map_err(|error| StoreError::System(error.to_string()));
    Ok(Identity::from_halves(number()?, number()?))
}

/// Identity of this host's running kernel: processes with the same one may share memory.
pub(crate) fn host_id() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}

/// `host:port` of a client; a name without a port gets `port`, or one that is drawn.
pub(crate) fn client_name(local_hostname: &str, port: Option<u16>) -> Result<String, StoreError> {
    let name = local_hostname.trim();
    let refuse = |reason: &str| StoreError::Config {
        name: "local_hostname",
        value: local_hostname.to_owned(),
        reason: reason.to_owned(),
    };
    if name.is_empty() {
        return Err(refuse(
            "give the name or address by which other hosts reach this one",
        ));
    }
    if let Some((_, port)) = split_port(name) {
        return match port.parse::<u16>() {
            Ok(port) if port > 0 => Ok(name.to_owned()),
            _ => Err(refuse("the port is not a number from 1 to 65535")),
        };
    }
    let port = port.map_or_else(any_port, Ok)?;
    let host = if name.contains(':') && !name.starts_with('[') {
        format!("[{name}]")
    } else {
        name.to_owned()
    };
    Ok(format!("{host}:{port}"))
}

fn any_port() -> Result<u16, StoreError> {
    let random = getrandom::u64().map_err(|error| StoreError::System(error.to_string()))?;
    let count = CLIENT_PORTS.len() as u64;
    let at = usize::try_from(random % count).unwrap_or_default();
    Ok(CLIENT_PORTS
        .clone()
        .nth(at)
        .unwrap_or(*CLIENT_PORTS.start()))
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

    #[test]
    fn a_name_with_a_port_is_kept_and_one_without_gets_one() {
        assert_eq!(
            client_name("10.0.0.1:17001", Some(9)).unwrap(),
            "10.0.0.1:17001"
        );
        assert_eq!(client_name("node-7", Some(9)).unwrap(), "node-7:9");
        let chosen = client_name("node-7", None).unwrap();
        let (host, port) = chosen.split_once(':').unwrap();
        assert_eq!(host, "node-7");
        assert!(CLIENT_PORTS.contains(&port.parse().unwrap()));
        assert!(
            client_name("fe80::1", None)
                .unwrap()
                .starts_with("[fe80::1]:")
        );
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
