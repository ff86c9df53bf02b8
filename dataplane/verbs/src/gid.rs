//! The GID table and which of its entries to speak from.
//! Invariant: [`rank`] orders every entry and says why; it never drops one, because a rail is
//! proven by a real write and the second best may be the one that works.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::error::VerbsError;

/// Variables that force an index, the first one set holds.
pub const INDEX_VARIABLES: [&str; 2] = ["MC_GID_INDEX", "NCCL_IB_GID_INDEX"];

/// One entry of a GID table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortGid {
    /// Place in the table.
    pub index: u32,
    /// The identifier in network order; for RoCE an IPv6 or IPv4-mapped address.
    pub address: [u8; 16],
    /// Transport that this entry speaks.
    pub kind: GidKind,
    /// Network interface it comes from, where the kernel tells.
    pub interface: Option<String>,
}

/// Transport of a GID entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GidKind {
    /// Native InfiniBand.
    InfiniBand,
    /// RoCE over Ethernet frames: not routable.
    RoceV1,
    /// RoCE over UDP.
    RoceV2,
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GidKind::InfiniBand => "InfiniBand",
            GidKind::RoceV1 => "RoCE v1",
            GidKind::RoceV2 => "RoCE v2",
        })
    }
}

/// How far an address reaches, the farthest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GidReach {
    /// An IPv4 address as `::ffff:a.b.c.d`.
    Ipv4,
    /// A global IPv6 address.
    GlobalIpv6,
    /// `fc00::/7`: routable inside a site.
    UniqueLocalIpv6,
    /// `fe80::/10` or `169.254.0.0/16`: one link only.
    LinkLocal,
    /// Loopback, unspecified or multicast: no peer can answer.
    Unusable,
}

impl fmt::Display for GidReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GidReach::Ipv4 => "IPv4 address",
            GidReach::GlobalIpv6 => "global IPv6 address",
            GidReach::UniqueLocalIpv6 => "unique local IPv6 address",
            GidReach::LinkLocal => "link-local address, reaches one link only",
            GidReach::Unusable => "address that no peer can answer",
        })
    }
}

impl PortGid {
    /// The address in words: `10.0.0.1` or `fe80::1`.
    pub fn text(&self) -> String {
        let v6 = Ipv6Addr::from(self.address);
        v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string())
    }

    /// How far it reaches.
    pub fn scope(&self) -> GidReach {
        scope_of(self.address)
    }

    /// Whether a peer at `remote` can be spoken to from here at all: IPv4 reaches IPv4 only.
    pub fn may_reach(&self, remote: &[u8; 16]) -> bool {
        let is_ipv4 = |gid: &[u8; 16]| Ipv6Addr::from(*gid).to_ipv4_mapped().is_some();
        self.kind == GidKind::InfiniBand || is_ipv4(&self.address) == is_ipv4(remote)
    }
}

/// The scope of a raw GID.
pub fn scope_of(address: [u8; 16]) -> GidReach {
    let v6 = Ipv6Addr::from(address);
    if let Some(v4) = v6.to_ipv4_mapped() {
        return ipv4_scope(v4);
    }
    if v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() {
        GidReach::Unusable
    } else if v6.is_unicast_link_local() {
        GidReach::LinkLocal
    } else if v6.is_unique_local() {
        GidReach::UniqueLocalIpv6
    } else {
        GidReach::GlobalIpv6
    }
}

fn ipv4_scope(v4: Ipv4Addr) -> GidReach {
    if v4.is_unspecified() || v4.is_loopback() || v4.is_multicast() || v4.is_broadcast() {
        GidReach::Unusable
    } else if v4.is_link_local() {
        GidReach::LinkLocal
    } else {
        GidReach::Ipv4
    }
}

/// An index that the user insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForcedIndex {
    /// Place in the table.
    pub index: u32,
    /// The variable it came from.
    pub variable: &'static str,
}

impl ForcedIndex {
    /// Reads [`INDEX_VARIABLES`] through `lookup`. Empty, `-1` and `auto` mean "not forced";
    /// anything else that is not a number is returned as the error, `(variable, value)`.
    pub fn read(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<ForcedIndex>, (&'static str, String)> {
        for variable in INDEX_VARIABLES {
            let Some(value) = lookup(variable) else {
                continue;
            };
            match value.trim() {
                "" | "-1" | "auto" => {}
                number => {
                    let index = number.parse().map_err(|_| (variable, value.clone()))?;
                    return Ok(Some(ForcedIndex { index, variable }));
                }
            }
        }
        Ok(None)
    }
}

/// A GID with its place in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedPortGid {
    /// The entry.
    pub gid: PortGid,
    /// Whether a connection may be tried from it.
    pub usable: bool,
    /// Why it stands where it stands, one line.
    pub explain: String,
}

/// Orders `gids` from best to worst: the forced one; then RoCE v2 (and InfiniBand) before RoCE v1;
/// then by [`GidReach`]; then by index. With a forced index the others are not usable.
pub fn rank(
    device: &str,
    gids: &[PortGid],
    forced: Option<ForcedIndex>,
) -> Result<Vec<RankedPortGid>, VerbsError> {
    if let Some(forced) = forced {
        check_forced(device, gids, forced)?;
    }
    let mut order: Vec<&PortGid> = gids.iter().collect();
    order.sort_by_key(|gid| {
        let is_forced = forced.is_some_and(|forced| forced.index == gid.index);
        (
            !is_forced,
            gid.scope() == GidReach::Unusable,
            gid.kind == GidKind::RoceV1,
            gid.scope(),
            gid.index,
        )
    });
    let ranked: Vec<RankedPortGid> = order.into_iter().map(|gid| judge(gid, forced)).collect();
    if !ranked.iter().any(|gid| gid.usable) {
        return Err(VerbsError::NoGid { device: device.to_owned() });
    }
    Ok(ranked)
}

fn check_forced(device: &str, gids: &[PortGid], forced: ForcedIndex) -> Result<(), VerbsError> {
    if gids.iter().any(|gid| gid.index == forced.index) {
        return Ok(());
    }
    Err(VerbsError::UnknownGid {
        device: device.to_owned(),
        index: forced.index,
        variable: forced.variable,
        known: gids.iter().map(|gid| gid.index.to_string()).collect(),
    })
}

fn judge(gid: &PortGid, forced: Option<ForcedIndex>) -> RankedPortGid {
    let facts = format!(
        "GID {} {} ({}, {}{})",
        gid.index,
        gid.text(),
        gid.kind,
        gid.scope(),
        gid.interface.as_ref().map_or_else(String::new, |name| format!(", on {name}")),
    );
    let (usable, reason) = match forced {
        Some(forced) if forced.index == gid.index => {
            (true, format!("forced by {}", forced.variable))
        }
        Some(forced) => (false, format!("set aside by {}", forced.variable)),
        None => (gid.scope() != GidReach::Unusable, merit(gid).to_owned()),
    };
    RankedPortGid { gid: gid.clone(), usable, explain: format!("{facts}: {reason}") }
}

fn merit(gid: &PortGid) -> &'static str {
    match (gid.scope(), gid.kind) {
        (GidReach::Unusable, _) => "never used",
        (_, GidKind::RoceV1) => "last resort, RoCE v1 is not routable",
        (GidReach::LinkLocal, GidKind::RoceV2) => "only if peers share the link",
        (_, GidKind::InfiniBand) => "the port's own identifier",
        (GidReach::Ipv4, _) => "first choice, routable and the most common",
        (GidReach::GlobalIpv6 | GidReach::UniqueLocalIpv6, _) => "routable, behind IPv4",
    }
}

#[cfg(test)]
mod tests;
