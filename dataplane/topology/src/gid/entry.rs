//! One entry of the GID table of a port. Invariant: as the kernel lists it.

use super::address::Gid;
use std::fmt;

/// What a GID table entry says of its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GidType {
    /// UDP, crosses routers.
    RoceV2,
    /// InfiniBand fabric.
    InfiniBand,
    /// Ethernet frames of their own type, one broadcast domain only.
    RoceV1,
}

impl GidType {
    /// Reads `gid_attrs/types/N`. Entries of InfiniBand ports say `IB/RoCE v1` as well.
    #[must_use]
    pub fn of_attribute(text: &str, is_infiniband: bool) -> Self {
        match text.trim() {
            "RoCE v2" => Self::RoceV2,
            _ if is_infiniband => Self::InfiniBand,
            _ => Self::RoceV1,
        }
    }
}

impl fmt::Display for GidType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RoceV2 => "RoCE v2",
            Self::InfiniBand => "InfiniBand",
            Self::RoceV1 => "RoCE v1",
        })
    }
}

/// One used entry of a port's GID table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidEntry {
    /// Port of the device, from 1.
    pub port: u8,
    /// Position in the port's table: what a queue pair is given.
    pub index: u32,
    /// The address.
    pub gid: Gid,
    /// Kind of its packets.
    pub kind: GidType,
    /// Network interface it belongs to, if known.
    pub netdev: Option<String>,
}
