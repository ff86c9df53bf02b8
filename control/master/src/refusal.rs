//! Why something that a person asked for is not begun. Invariant: each refusal says what to do
//! instead.

use perigee_schemas::Status;

/// Why a task or a drain job is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRefusal {
    /// The code for the caller.
    pub status: Status,
    /// What to change, for people.
    pub reason: String,
}

impl JobRefusal {
    /// A name that no mounted segment has.
    pub(crate) fn no_segment(name: &str) -> Self {
        Self {
            status: Status::SegmentNotFound,
            reason: format!(
                "No segment is named {name:?}: /get_all_segments lists those that are mounted"
            ),
        }
    }

    /// A segment that takes no objects, so that there is nothing to begin.
    pub(crate) fn closed_segment(name: &str, state: &str, advice: &str) -> Self {
        Self {
            status: Status::UnavailableInCurrentStatus,
            reason: format!("Segment {name} is {state}: {advice}"),
        }
    }

    /// A name that segments of several clients have.
    pub(crate) fn shared_name(name: &str, clients: usize) -> Self {
        Self {
            status: Status::UnavailableInCurrentStatus,
            reason: format!(
                "Segments of {clients} clients are named {name:?}: give each client a name of its own; a drain job also \
                 takes the segment_id of /get_segments_detail"
            ),
        }
    }
}

impl From<Status> for JobRefusal {
    fn from(status: Status) -> Self {
        Self { status, reason: status.name().to_owned() }
    }
}
