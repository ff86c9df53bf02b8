//! `host:port` texts, and the addresses behind them. Invariant: a look-up ends by its deadline,
//! although the system's resolver knows none: it gets a thread, and only so many of those exist.

use crate::limits::{LOOK_UPS_MAX, NAME_BYTES_MAX};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Name that stands for "no server, ask the peer".
pub(crate) const PEER_TO_PEER: &str = "P2PHANDSHAKE";

/// Look-ups whose thread still runs.
static LOOK_UPS: AtomicUsize = AtomicUsize::new(0);

/// Host and port of `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address.
pub(crate) fn split(text: &str) -> Option<(&str, Option<u16>)> {
    if text.len() > NAME_BYTES_MAX {
        return None;
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            let port = match after {
                "" => None,
                _ => Some(after.strip_prefix(':')?),
            };
            (host, port)
        }
        None if text.matches(':').count() > 1 => (text, None),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(digits) => Some(digits.parse().ok().filter(|port| *port != 0)?),
        None => None,
    };
    let usable = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
    usable.then_some((host, port))
}

/// As [`split`], for the name of a peer, which has a port as a rule: the last part of a bare IPv6
/// address is one if what is before it is an address, too. Programs put host, colon and port
/// together without brackets.
pub(crate) fn split_peer(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = split(text)?;
    let parts = host.rsplit_once(':').filter(|_| !text.starts_with('['));
    let with_port = parts.and_then(|(before, last)| {
        let address = before.split_once('%').map_or(before, |(address, _)| address);
        let last = last.parse().ok().filter(|last| *last != 0)?;
        address.parse::<Ipv6Addr>().ok().map(|_| (before, last))
    });
    Some(with_port.map_or((host, port), |(before, last)| (before, Some(last))))
}

/// All addresses of a host name or literal address, resolved before `deadline`.
///
/// # Errors
/// The name has no address or the resolver does not answer in time; in words.
pub fn resolve(host: &str, port: u16, deadline: Instant) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let slot = LookUp::start().ok_or("too many names are being looked up")?;
    let (answer, wait) = sync_channel(1);
    let name = host.to_owned();
    let look_up = move || {
        let found = (name.as_str(), port).to_socket_addrs();
        let found = found.map(Iterator::collect::<Vec<_>>);
        // The caller may have given up.
        let _ = answer.send(found);
        drop(slot);
    };
    Builder::new()
        .name("perigee-name".to_owned())
        .spawn(look_up)
        .map_err(|error| error.to_string())?;
    let left = deadline.saturating_duration_since(Instant::now());
    match wait.recv_timeout(left) {
        Ok(Ok(addresses)) if addresses.is_empty() => Err("it has no address".to_owned()),
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the resolver did not answer in time".to_owned()),
    }
}

/// `host:port` of each server that a metadata setting names; none for `P2PHANDSHAKE`, where there
/// is no server.
pub fn service_addresses(metadata_server: &str) -> Vec<String> {
    let given = metadata_server.trim();
    let rest = given.split_once("://").map_or(given, |(_, rest)| rest);
    let list = rest.split('/').next().unwrap_or_default();
    let list = list.rsplit_once('@').map_or(list, |(_, list)| list);
    let is_address =
        |text: &&str| split(text).is_some() && !text.eq_ignore_ascii_case(PEER_TO_PEER);
    let addresses = list.split([',', ';']).map(str::trim).filter(is_address);
    addresses.map(str::to_owned).collect()
}

/// Time of `left` untried things that one of them may take until `deadline`.
pub(crate) fn share(deadline: Instant, left: usize) -> Duration {
    let time = deadline.saturating_duration_since(Instant::now());
    time / u32::try_from(left.max(1)).unwrap_or(u32::MAX)
}

struct LookUp;

impl LookUp {
    fn start() -> Option<Self> {
        if LOOK_UPS.fetch_add(1, SeqCst) < LOOK_UPS_MAX {
            return Some(Self);
        }
        LOOK_UPS.fetch_sub(1, SeqCst);
        None
    }
}

impl Drop for LookUp {
    fn drop(&mut self) {
        LOOK_UPS.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_split() {
        for (text, expected) in [
            ("host", Some(("host", None))),
            ("host:1", Some(("host", Some(1)))),
            ("10.0.0.1:17001", Some(("10.0.0.1", Some(17_001)))),
            ("[fe80::1]:7", Some(("fe80::1", Some(7)))),
            ("[::1]", Some(("::1", None))),
            ("fe80::1", Some(("fe80::1", None))),
            ("", None),
            (":1", None),
            ("host:", None),
            ("host:0", None),
            ("host:65536", None),
            ("[::1", None),
            ("[::1]x", None),
            ("a b:1", None),
        ] {
            assert_eq!(split(text), expected, "{text:?}");
        }
    }

    #[test]
    fn peers_with_bare_ipv6_addresses_have_ports() {
        for (text, expected) in [
            ("::1:16105", Some(("::1", Some(16_105)))),
            ("::1:8080", Some(("::1", Some(8080)))),
            ("fe80::1%eth0:7", Some(("fe80::1%eth0", Some(7)))),
            ("2001:db8:1:2:3:4:5:6:12001", Some(("2001:db8:1:2:3:4:5:6", Some(12_001)))),
            ("::1", Some(("::1", None))),
            ("fe80::1", Some(("fe80::1", None))),
            ("fe80::1:0", Some(("fe80::1:0", None))),
            ("2001:db8:1:2:3:4:5:6", Some(("2001:db8:1:2:3:4:5:6", None))),
            ("[::1:2]:7", Some(("::1:2", Some(7)))),
            ("[::1:2]", Some(("::1:2", None))),
            ("10.0.0.1:17001", Some(("10.0.0.1", Some(17_001)))),
            ("host:7", Some(("host", Some(7)))),
            ("host", Some(("host", None))),
            ("[::1", None),
        ] {
            assert_eq!(split_peer(text), expected, "{text:?}");
        }
    }

    #[test]
    fn servers_are_found_in_metadata_settings_of_each_kind() {
        for (given, expected) in [
            ("http://10.0.0.1:8080/metadata", &["10.0.0.1:8080"][..]),
            ("https://meta/metadata", &["meta"]),
            ("etcd://a:2379,b:2379", &["a:2379", "b:2379"]),
            ("a:2379;b:2379", &["a:2379", "b:2379"]),
            ("redis://user:pass@[::1]:6379/3", &["[::1]:6379"]),
            ("P2PHANDSHAKE", &[]),
            ("", &[]),
        ] {
            assert_eq!(service_addresses(given), expected, "{given:?}");
        }
    }

    #[test]
    fn literal_addresses_need_no_resolver() {
        let past = Instant::now();
        assert_eq!(resolve("::1", 5, past), Ok(vec!["[::1]:5".parse().unwrap()]));
    }

    #[test]
    fn a_name_without_address_is_an_error() {
        let deadline = Instant::now() + Duration::from_secs(60);
        assert!(resolve("no-such-host.invalid", 1, deadline).is_err());
    }
}
