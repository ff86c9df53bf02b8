//! What was measured of a link.

use perigee_verdict::NicOfHost;
use serde::{Deserialize, Serialize};

/// A rate of load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRate {
    /// Payload that arrived, without the beginning, in which connections find their pace.
    pub bytes_per_second: f64,
}

/// What was measured of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReadings {
    /// Round trip of a small message while nothing else is under way: the median.
    pub round_trip_ns: u64,
    /// The shortest.
    pub round_trip_min_ns: u64,
    /// 99 % took no longer.
    pub round_trip_p99_ns: u64,
    /// Bandwidth from one end to the other; `None` if it was not measured.
    pub there: Option<LoadRate>,
    /// The same in the other direction, if it was measured.
    pub back: Option<LoadRate>,
    /// Segments of the load sent, and sent again, both directions.
    pub segments: u64,
    /// See `segments`.
    pub segments_again: u64,
    /// Datagrams sent; 0 if they are not let through at all, or none were wanted.
    pub probes: u32,
    /// Datagrams that did not arrive.
    pub lost_there: u32,
    /// Datagrams that did not come back of those that arrived.
    pub lost_back: u32,
    /// The largest frame that passes whole in both directions; `None` where datagrams do not pass.
    pub frame_bytes: Option<u32>,
}

/// A link between two NICs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkResult {
    /// The end that measured.
    pub from: NicOfHost,
    /// The other end.
    pub to: NicOfHost,
    /// Largest frames that the two NICs are set to, in that order.
    pub nic_frame_bytes: [u32; 2],
    /// Megabits per second of the slower NIC, if both say.
    pub speed_mbps: Option<u64>,
    /// What was measured, or why nothing was.
    pub outcome: Result<LinkReadings, String>,
}
