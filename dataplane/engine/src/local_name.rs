//! The name an engine is given: a host, and maybe a port. Pure.

use crate::error::EngineError;
use perigee_settings::SettingError;
use std::net::{IpAddr, Ipv6Addr};

/// A parsed local name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalName {
    /// Host without brackets.
    pub(crate) host: String,
    /// Port of the handshake; `None` chooses one.
    pub(crate) port: Option<u16>,
    /// Written with port 0: such a name would be the same for every engine of the host.
    pub(crate) leaves_port_open: bool,
}

impl LocalName {
    /// Reads `host`, `host:port`, `[v6]:port`, or a bare IPv6 address with a port if it is none
    /// without one; port 0 is no port.
    pub(crate) fn parse(text: &str) -> Result<Self, EngineError> {
        let parts = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').and_then(|(host, rest)| match rest {
                "" => Some((host, None)),
                _ => rest.strip_prefix(':').map(|port| (host, Some(port))),
            }),
            None if text.matches(':').count() > 1 => Some(bare_ipv6(text)),
            None => Some(match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }),
        };
        let parsed = parts.and_then(|(host, port)| {
            let port = match port {
                None => None,
                Some(digits) => Some(digits.parse::<u16>().ok()?),
            };
            Some(Self {
                host: host.to_owned(),
                port: port.filter(|port| *port != 0),
                leaves_port_open: port == Some(0),
            })
        });
        let usable = |name: &Self| {
            !name.host.is_empty() && !name.host.contains(|c: char| c.is_whitespace() || c == '/')
        };
        parsed.filter(usable).ok_or_else(|| {
            let reason = "write host, host:port or [ipv6]:port, as other engines reach this one";
            SettingError::new("local_hostname", text, reason).into()
        })
    }

    /// Whether it means the host itself, on every host.
    pub(crate) fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
    }

    /// The same with an address for the host.
    pub(crate) fn at(&self, address: IpAddr) -> Self {
        Self { host: address.to_string(), ..self.clone() }
    }

    /// `host:port`, with brackets around an IPv6 address.
    pub(crate) fn with_port(&self, port: u16) -> String {
        if self.host.contains(':') {
            format!("[{}]:{port}", self.host)
        } else {
            format!("{}:{port}", self.host)
        }
    }
}

/// An IPv6 address without brackets: all of the text if that is one.
fn bare_ipv6(text: &str) -> (&str, Option<&str>) {
    let is_address = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    match text.rsplit_once(':') {
        Some((host, port)) if !is_address(text) && is_address(host) => (host, Some(port)),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, Option<u16>) {
        let name = LocalName::parse(text).unwrap();
        (name.host, name.port)
    }

    #[test]
    fn names_are_hosts_with_or_without_a_port() {
        assert_eq!(parsed("node-1"), ("node-1".to_owned(), None));
        assert_eq!(parsed("10.0.0.1:0"), ("10.0.0.1".to_owned(), None));
        assert_eq!(parsed("10.0.0.1:99"), ("10.0.0.1".to_owned(), Some(99)));
        assert_eq!(parsed("fe80::1"), ("fe80::1".to_owned(), None));
        assert_eq!(parsed("fe80::1:16105"), ("fe80::1".to_owned(), Some(16_105)));
        assert_eq!(parsed("fe80::1:80"), ("fe80::1:80".to_owned(), None));
        assert_eq!(parsed("[::1]:80"), ("::1".to_owned(), Some(80)));
        assert_eq!(LocalName::parse("[::1]").unwrap().with_port(5), "[::1]:5");
        let open = ["10.0.0.1:0", "10.0.0.1", "10.0.0.1:99"];
        let open = open.map(|text| LocalName::parse(text).unwrap().leaves_port_open);
        assert_eq!(open, [true, false, false]);
        for text in ["", ":80", "a:b", "[::1", "a b", "x:70000"] {
            assert!(LocalName::parse(text).is_err(), "{text}");
        }
    }
}
