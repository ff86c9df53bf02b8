//! What can be wrong with names and documents a user gave. Invariant: a broken sysfs tree is no
//! error; only what a user wrote can be one, and the message says what to write instead.

use crate::limits::SHOWN_CHARS_MAX;

/// Why a selection or a matrix is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// Devices were named that this host does not have.
    #[error("No device {}; this host has {}", .unknown.join(", "), listed(.existing))]
    UnknownDevices {
        /// Names that were asked for.
        unknown: Vec<String>,
        /// RDMA devices and network interfaces that exist.
        existing: Vec<String>,
    },
    /// No RDMA device is left to use.
    #[error("No RDMA device is left to use; this host has {}", listed(.existing))]
    NothingLeft {
        /// RDMA devices and network interfaces that exist.
        existing: Vec<String>,
    },
    /// A map of ranks has no entry for this rank.
    #[error("No devices for rank {rank}; the map has ranks {}", .ranks.join(", "))]
    NoSuchRank {
        /// Rank of this process.
        rank: u32,
        /// Ranks of the map.
        ranks: Vec<String>,
    },
    /// A map of ranks was given and the rank of this process is not known.
    #[error(
        "The devices are given per rank ({}) and the rank is not known; set LOCAL_RANK",
        .ranks.join(", ")
    )]
    RankNeeded {
        /// Ranks of the map.
        ranks: Vec<String>,
    },
    /// A document is not what it should be.
    #[error("{what} is refused: {cause}")]
    Malformed {
        /// Which document.
        what: String,
        /// What is wrong, and what to write.
        cause: String,
    },
    /// A file that was named cannot be read.
    #[error("Cannot read {path}: {cause}")]
    Unreadable {
        /// The path as given.
        path: String,
        /// Cause reported by the system.
        cause: String,
    },
    /// A text is no GID.
    #[error("`{0}` is no GID; write eight groups of hex digits as in sysfs")]
    Gid(String),
}

impl TopologyError {
    pub(crate) fn malformed(what: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::Malformed { what: what.into(), cause: cause.into() }
    }

    pub(crate) fn gid(text: &str) -> Self {
        Self::Gid(shown(text))
    }
}

/// A user's text, short and without control characters.
pub(crate) fn shown(text: &str) -> String {
    text.escape_debug().take(SHOWN_CHARS_MAX).collect()
}

fn listed(existing: &[String]) -> String {
    if existing.is_empty() { "none".to_owned() } else { existing.join(", ") }
}
