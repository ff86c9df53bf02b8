//! The 16 bytes of a GID. Invariant: text is read and written as the kernel does, so that what is
//! printed can be searched for in sysfs.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::error::TopologyError;

/// A global identifier: an IPv6 address or an IPv4 address mapped into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid(pub [u8; 16]);

/// How far packets to an address get. The order is the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GidScope {
    /// IPv4, forwarded by routers.
    Ipv4,
    /// IPv6, forwarded by routers everywhere.
    Ipv6Global,
    /// IPv6 `fc00::/7`, forwarded inside a site.
    Ipv6UniqueLocal,
    /// IPv4 `169.254.0.0/16`, one link only.
    Ipv4LinkLocal,
    /// IPv6 `fe80::/10`, one link only.
    Ipv6LinkLocal,
    /// No address: zero, multicast or loopback.
    Null,
}

impl GidScope {
    /// True for addresses written as IPv4.
    #[must_use]
    pub fn is_ipv4(self) -> bool {
        matches!(self, Self::Ipv4 | Self::Ipv4LinkLocal)
    }

    /// True for addresses that never leave their link.
    #[must_use]
    pub fn is_link_local(self) -> bool {
        matches!(self, Self::Ipv4LinkLocal | Self::Ipv6LinkLocal)
    }
}

impl fmt::Display for GidScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6Global => "global IPv6",
            Self::Ipv6UniqueLocal => "site-local IPv6",
            Self::Ipv4LinkLocal => "link-local IPv4",
            Self::Ipv6LinkLocal => "link-local IPv6",
            Self::Null => "no address",
        })
    }
}

impl Gid {
    /// The IPv4 address inside, if it is a mapped one.
    #[must_use]
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.0).to_ipv4_mapped()
    }

    /// How far packets to it get.
    #[must_use]
    pub fn scope(&self) -> GidScope {
        let address = Ipv6Addr::from(self.0);
        if let Some(mapped) = address.to_ipv4_mapped() {
            return match mapped {
                ip if ip.is_unspecified() || ip.is_loopback() => GidScope::Null,
                ip if ip.is_multicast() || ip.is_broadcast() => GidScope::Null,
                ip if ip.is_link_local() => GidScope::Ipv4LinkLocal,
                _ => GidScope::Ipv4,
            };
        }
        match address {
            ip if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() => GidScope::Null,
            // A port without a subnet manager's prefix: only its interface identifier may be zero.
            ip if ip.is_unicast_link_local() && ip.segments()[4..] == [0; 4] => GidScope::Null,
            ip if ip.is_unicast_link_local() => GidScope::Ipv6LinkLocal,
            ip if ip.is_unique_local() => GidScope::Ipv6UniqueLocal,
            _ => GidScope::Ipv6Global,
        }
    }

    /// For people: `10.1.0.4` or `fe80::1`.
    #[must_use]
    pub fn readable(&self) -> String {
        match self.ipv4() {
            Some(ip) => ip.to_string(),
            None => Ipv6Addr::from(self.0).to_string(),
        }
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = Ipv6Addr::from(self.0).segments();
        for (position, group) in groups.iter().enumerate() {
            let separator = if position == 0 { "" } else { ":" };
            write!(f, "{separator}{group:04x}")?;
        }
        Ok(())
    }
}

impl FromStr for Gid {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let address: Result<Ipv6Addr, _> = text.trim().parse();
        let address = address.map_err(|_| TopologyError::gid(text))?;
        Ok(Self(address.octets()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_a_round_trip_in_the_kernels_form() {
        let text = "0000:0000:0000:0000:0000:ffff:0a01:0004";
        let gid: Gid = text.parse().unwrap();
        assert_eq!(gid.to_string(), text);
        assert_eq!(gid.readable(), "10.1.0.4");
        assert_eq!(gid.ipv4(), Some(Ipv4Addr::new(10, 1, 0, 4)));
        assert!("garbage".parse::<Gid>().is_err());
        assert!("".parse::<Gid>().is_err());
    }

    #[test]
    fn scopes_follow_the_address_blocks() {
        let scope = |text: &str| text.parse::<Gid>().unwrap().scope();
        assert_eq!(scope("::ffff:10.0.0.1"), GidScope::Ipv4);
        assert_eq!(scope("::ffff:169.254.3.4"), GidScope::Ipv4LinkLocal);
        assert_eq!(scope("::ffff:127.0.0.1"), GidScope::Null);
        assert_eq!(scope("2001:db8::1"), GidScope::Ipv6Global);
        assert_eq!(scope("fd00::1"), GidScope::Ipv6UniqueLocal);
        assert_eq!(scope("fe80::a00:1"), GidScope::Ipv6LinkLocal);
        assert_eq!(scope("fe80::"), GidScope::Null);
        assert_eq!(scope("::"), GidScope::Null);
        assert_eq!(scope("ff02::1"), GidScope::Null);
    }
}
