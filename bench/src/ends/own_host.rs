//! Which hosts are this machine. Invariant: a name counts for the addresses behind it, so a run is
//! of one machine under whichever name the other end was given.

use std::net::{ToSocketAddrs, UdpSocket};

/// Whether a host, or the host of `host:port`, is this machine: an address that can be bound is one
/// of ours.
pub(crate) fn is_this_machine(name: &str) -> bool {
    let host = host_of(name);
    let Ok(mut addresses) = (host, 0).to_socket_addrs() else {
        return false;
    };
    addresses.any(|address| UdpSocket::bind(address).is_ok())
}

/// The host of `host`, `host:port`, `[v6]:port` or a bare IPv6 address.
fn host_of(name: &str) -> &str {
    let (host, port) = name.rsplit_once(':').unwrap_or((name, ""));
    let is_bare_v6 = host.contains(':') && !host.ends_with(']');
    let host = if is_bare_v6 || port.is_empty() { name } else { host };
    host.trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_and_names_are_this_machine_and_others_are_not() {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let own = format!("{}:1234", own.trim());
        for name in ["127.0.0.1:1", "127.0.0.1", "[::1]:1", "::1", "localhost:9"] {
            assert!(is_this_machine(name), "{name}");
        }
        // A machine without an entry for itself cannot be reached by its name either.
        if own.to_socket_addrs().is_ok() {
            assert!(is_this_machine(&own), "{own}");
        }
        for name in ["192.0.2.254:1", "no-such-host.invalid:1", ""] {
            assert!(!is_this_machine(name), "{name}");
        }
    }

    #[test]
    fn hosts_are_split_from_their_ports() {
        for (name, host) in
            [("a:1", "a"), ("a", "a"), ("[fe80::1]:7", "fe80::1"), ("[::1]", "::1"), ("::1", "::1")]
        {
            assert_eq!(host_of(name), host);
        }
    }
}
