//! Something wrong with a link. Invariant: a finding has the number and what it is held against.

use perigee_verdict::NicOfHost;
use serde::{Deserialize, Serialize};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// It could not be measured.
    Unreachable,
    /// Frames are lost.
    Loss,
    /// Frames of the size that the NICs are set to do not pass.
    FrameSize,
    /// It carries less than before, or than the others.
    Bandwidth,
    /// It takes longer.
    RoundTrip,
}

impl FindingKind {
    /// The word of the table.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "DEAD",
            Self::Loss => "LOSS",
            Self::FrameSize => "MTU",
            Self::Bandwidth => "SLOW",
            Self::RoundTrip => "LATE",
        }
    }

    /// Whether something does not work, and not only less well.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Unreachable | Self::Loss | Self::FrameSize)
    }
}

/// Something wrong with a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkFinding {
    /// What.
    pub kind: FindingKind,
    /// From which end the direction is meant.
    pub from: NicOfHost,
    /// The other end.
    pub to: NicOfHost,
    /// The numbers, for people.
    pub evidence: String,
    /// What it is of its baseline or of the others.
    pub ratio: Option<f64>,
}
