//! What a host says of itself: its name and its NICs with their addresses.

use crate::limits::NICS_MAX;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use perigee_topology::{NicKind, Roots, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What a host says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshHost {
    /// Its name.
    pub host: String,
    /// Version of the program.
    pub version: String,
    /// NICs with an address, without the loopback.
    pub nics: Vec<NicFacts>,
}

/// A NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicFacts {
    /// Name of the interface.
    pub name: String,
    /// Largest frame that it is set to, without the link's header.
    pub mtu: u32,
    /// Megabits per second, if it says.
    pub speed_mbps: Option<u64>,
    /// Its addresses.
    pub addresses: Vec<NicAddress>,
}

/// An address and its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicAddress {
    /// The address.
    pub address: IpAddr,
    /// Bits of it that name the network.
    pub prefix: u8,
}

impl NicAddress {
    /// Whether both are of one network.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        match (self.address, other.address) {
            (IpAddr::V4(one), IpAddr::V4(two)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0);
                self.prefix == other.prefix && (one.to_bits() ^ two.to_bits()) & mask == 0
            }
            (IpAddr::V6(one), IpAddr::V6(two)) => {
                let mask =
                    u128::MAX.checked_shl(128 - u32::from(self.prefix.min(128))).unwrap_or(0);
                self.prefix == other.prefix && (one.to_bits() ^ two.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

impl MeshHost {
    /// Of this host. `name` is taken for its own if it is not empty; of `wanted` NICs, or of all.
    #[must_use]
    pub fn of_this_host(name: &str, wanted: &[String]) -> Self {
        let topology = Topology::discover(&Roots::system());
        let mut addresses = addresses();
        let nics = topology.nics.iter().filter(|nic| match wanted.is_empty() {
            true => is_card(nic.kind) && !is_bridge(&nic.name),
            false => wanted.contains(&nic.name),
        });
        let nics = nics.filter_map(|nic| {
            Some(NicFacts {
                name: nic.name.clone(),
                mtu: nic.mtu?,
                speed_mbps: nic.speed_mbps,
                addresses: addresses.remove(&nic.name)?,
            })
        });
        Self {
            host: if name.is_empty() { host_name() } else { name.to_owned() },
            version: env!("CARGO_PKG_VERSION").to_owned(),
            nics: nics.take(NICS_MAX).collect(),
        }
    }
}

fn is_card(kind: NicKind) -> bool {
    kind != NicKind::Loopback
}

/// Bridges of containers have the same addresses on every host, and nothing of theirs leaves it.
fn is_bridge(name: &str) -> bool {
    Roots::system().sys().has(&format!("class/net/{name}/bridge"))
}

fn host_name() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.unwrap_or_else(|| "localhost".to_owned())
}

/// Addresses by interface, those of version 4 first.
fn addresses() -> BTreeMap<String, Vec<NicAddress>> {
    let mut found: BTreeMap<String, Vec<NicAddress>> = BTreeMap::new();
    let Ok(interfaces) = getifaddrs() else {
        return found;
    };
    for interface in interfaces {
        let address = interface.address.as_ref().and_then(ip);
        let mask = interface.netmask.as_ref().and_then(ip);
        let (Some(address), Some(mask)) = (address, mask) else {
            continue;
        };
        let prefix = match mask {
            IpAddr::V4(mask) => mask.to_bits().count_ones(),
            IpAddr::V6(mask) => mask.to_bits().count_ones(),
        };
        let is_of_the_link = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        if !is_of_the_link {
            let own = found.entry(interface.interface_name).or_default();
            own.push(NicAddress { address, prefix: prefix as u8 });
        }
    }
    found.values_mut().for_each(|own| own.sort_by_key(|one| one.address));
    found
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    if let Some(address) = address.as_sockaddr_in() {
        return Some(IpAddr::V4(address.ip()));
    }
    address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str, prefix: u8) -> NicAddress {
        NicAddress { address: address.parse().unwrap(), prefix }
    }

    #[test]
    fn addresses_of_one_network_are_beside_each_other() {
        assert!(of("10.1.0.1", 24).is_beside(&of("10.1.0.250", 24)));
        assert!(!of("10.1.0.1", 24).is_beside(&of("10.1.1.1", 24)));
        assert!(!of("10.1.0.1", 24).is_beside(&of("10.1.0.2", 16)));
        assert!(of("10.1.0.1", 0).is_beside(&of("11.0.0.1", 0)));
        assert!(of("fd00::1", 64).is_beside(&of("fd00::9", 64)));
        assert!(!of("fd00::1", 64).is_beside(&of("fd00:0:0:1::9", 64)));
        assert!(!of("10.1.0.1", 24).is_beside(&of("fd00::9", 24)));
    }
}
