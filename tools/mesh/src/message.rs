//! What is said on a connection: one JSON document a line, both ways.

use crate::facts::MeshHost;
use crate::plan::LinkPlan;
use crate::readings::{LinkReadings, LoadRate};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum MeshRequest {
    /// Who is there.
    Facts,
    /// Measure the link from one of your NICs to the server at `to`, with frames up to a size.
    Measure { nic: String, address: IpAddr, to: SocketAddr, frame_bytes: u32, plan: LinkPlan },
    /// Be the other end of a measurement.
    Open { plan: LinkPlan },
    /// Send back what comes, until a message begins with [`LAST_ECHO`].
    Echo,
    /// This connection carries load of a session, away from the server or towards it.
    Stream { session: u64, is_read: bool },
    /// What did you count?
    Counts,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum MeshAnswer {
    Facts(MeshHost),
    Measured(Box<LinkReadings>),
    /// A link that could not be measured.
    Failed {
        reason: String,
    },
    Opened {
        session: u64,
        has_datagrams: bool,
    },
    /// What was asked for begins.
    Go,
    Counts(SessionCounts),
    /// Not allowed; or, with a time, not now.
    Refused {
        reason: String,
        wait_ms: Option<u64>,
    },
}

/// What the answering end counted in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionCounts {
    /// Datagrams that looked for loss and came.
    pub(crate) datagrams: u32,
    /// Load that came.
    pub(crate) received: Option<LoadRate>,
    /// Segments that it sent, and those of them that it sent again.
    pub(crate) sent_again: [u64; 2],
}

/// Bytes of a message that is sent back.
pub(crate) const ECHO_BYTES: usize = 16;
/// First byte of the last one.
pub(crate) const LAST_ECHO: u8 = 1;
