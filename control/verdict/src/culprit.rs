//! What can be at fault.

use crate::link::NicOfHost;
use serde::{Deserialize, Serialize};

/// What it is; the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CulpritKind {
    /// The cable, the switch ports or the way between two NICs that are well otherwise.
    Path,
    /// A NIC, its cable or its switch port.
    Nic,
    /// A host, on all its NICs.
    Host,
    /// A switch, or what else all NICs of a name have in common.
    Switch,
    /// A disk that its own host names.
    Disk,
    /// A thread of the data plane without its core, which its own host names.
    Shard,
}

impl CulpritKind {
    /// The word of labels, tables and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Nic => "nic",
            Self::Host => "host",
            Self::Switch => "switch",
            Self::Disk => "disk",
            Self::Shard => "shard",
        }
    }
}

/// Who is at fault, and for which links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// What it is.
    pub kind: CulpritKind,
    /// `HOST/NIC - HOST/NIC`, `HOST/NIC`, a host, or a switch.
    pub name: String,
    /// Sick links that it explains.
    pub sick: usize,
    /// All links that were looked at and that it is part of.
    pub looked_at: usize,
    /// The ends of the sick links.
    pub links: Vec<[NicOfHost; 2]>,
}
