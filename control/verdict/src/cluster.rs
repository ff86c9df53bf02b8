//! The verdict on a cluster: plain data, served as JSON, read by `perigee top` and the page.

use crate::culprit::CulpritKind;
use crate::link::NicOfHost;
use serde::{Deserialize, Serialize};

/// Version of the document. Fields are only ever added; one that goes or changes makes it the next.
pub const VERDICT_VERSION: u32 = 1;

/// The verdict on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterVerdict {
    /// [`VERDICT_VERSION`].
    pub version: u32,
    /// Milliseconds since 1970.
    pub taken_ms: u64,
    /// Who is at fault, those that explain the most first.
    pub culprits: Vec<NamedCulprit>,
    /// Hosts whose agents report.
    pub hosts: Vec<JudgedHost>,
    /// Hosts whose agents reported within the last hour, and do so no more.
    #[serde(default)]
    pub silent: Vec<SilentHost>,
    /// Links between NICs of hosts, the sick ones first.
    pub links: Vec<ClusterLink>,
}

/// A host whose agent reports no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SilentHost {
    /// Its name.
    pub host: String,
    /// Milliseconds since its last report.
    pub age_ms: u64,
}

/// Who is at fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedCulprit {
    /// What it is.
    pub kind: CulpritKind,
    /// `HOST/NIC - HOST/NIC`, `HOST/NIC`, a host, a switch, `HOST/DISK` or `HOST/THREAD`.
    pub name: String,
    /// Sick links that it explains.
    pub sick_links: usize,
    /// All links that it is part of.
    pub links: usize,
    /// Milliseconds since 1970 when an agent first saw it.
    pub since_ms: u64,
    /// What agents say, each with its host.
    pub evidence: Vec<String>,
}

/// A host whose agent reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedHost {
    /// Its name.
    pub host: String,
    /// Its NICs.
    pub nics: Vec<String>,
    /// Milliseconds since its last report.
    pub age_ms: u64,
    /// `HOST:PORT` of its agent; none if that one serves its own host only.
    #[serde(default)]
    pub agent: Option<String>,
}

/// A link between NICs of two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterLink {
    /// The end whose agent tells of it.
    pub from: NicOfHost,
    /// The other end; its NIC is empty if no agent has its address.
    pub to: NicOfHost,
    /// Whether an end names it.
    pub is_sick: bool,
    /// Round trip, if it is known.
    pub round_trip_ns: Option<u64>,
    /// Segments sent again in the last seconds.
    pub sent_again: u64,
}
