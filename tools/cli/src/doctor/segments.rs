//! The cluster's segments as this host sees them.

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use crate::failure::Failure;
use crate::reachability::try_all;
use crate::status::segments_of;
use std::time::{Duration, Instant};

/// A segment whose owner does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreachableSegment {
    pub(super) name: String,
    pub(super) endpoint: String,
    pub(super) reason: String,
}

/// What a master's segments look like from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClusterSegments {
    /// No master was named.
    Unknown,
    /// This master does not answer.
    Silent { master: String, reason: String },
    /// These segments cannot be reached.
    Seen(Vec<UnreachableSegment>),
}

impl ClusterSegments {
    /// Asks the master `address` and tries its segments; without an address nothing is asked.
    pub(super) fn look(address: &str, deadline: Duration) -> Result<Self, Failure> {
        if address.is_empty() {
            return Ok(Self::Unknown);
        }
        let segments = match segments_of(address, deadline) {
            Ok(segments) => segments,
            Err(Failure::Call(error)) => {
                return Ok(Self::Silent { master: address.to_owned(), reason: error.to_string() });
            }
            Err(error) => return Err(error),
        };
        let obstacles = try_all(&segments, Instant::now() + deadline);
        let unreachable = segments.iter().zip(obstacles).filter_map(|(one, reason)| {
            Some(UnreachableSegment {
                name: one.segment.name.clone(),
                endpoint: one.segment.endpoint.clone(),
                reason: reason?,
            })
        });
        Ok(Self::Seen(unreachable.collect()))
    }
}

/// Objects in a segment that cannot be reached are silent misses.
pub(super) fn reachable(host: &HostFacts) -> CheckOutcome {
    match &host.cluster {
        ClusterSegments::Unknown => CheckOutcome::Skipped("no --master"),
        ClusterSegments::Silent { master, reason } => CheckOutcome::of([Finding::failure(
            master,
            format!("the master does not answer: {reason}"),
            "Start it, or correct --master=HOST:PORT",
        )]),
        ClusterSegments::Seen(unreachable) => CheckOutcome::of(unreachable.iter().map(|segment| {
            Finding::failure(
                &segment.name,
                format!(
                    "its data port {} cannot be reached from here ({}); its objects are misses",
                    segment.endpoint, segment.reason
                ),
                "Give its owner an address that this host reaches: local_hostname (MOONCAKE_LOCAL_HOSTNAME), \
                 --host, or MC_TCP_BIND_ADDRESS; open its ports (MC_STORE_CLIENT_MIN_PORT, MC_STORE_CLIENT_MAX_PORT)",
            )
        })),
    }
}
