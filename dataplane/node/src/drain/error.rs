//! Why a drain did not end well. Invariant: each reason says what to change.

use super::unlisted::Unlisted;
use perigee_schemas::Status;

/// Why segments are not empty now.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// Nothing says which client is meant.
    #[error(
        "Several clients have segments at the addresses of this host: {0}; give --segment=NAME"
    )]
    Ambiguous(String),
    /// The master's HTTP port did not answer.
    #[error(
        "The master does not answer at {url}: {reason}; {MASTER_PORT_FLAGS} gives its HTTP port"
    )]
    NoAnswer {
        /// What was asked.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// Something else listens there.
    #[error(
        "What answers at {url} is no master: {reason}; {MASTER_PORT_FLAGS} gives its HTTP port"
    )]
    NoMaster {
        /// What was asked.
        url: String,
        /// Why the answer cannot be read.
        reason: String,
    },
    /// The master's RPC port did not list its segments.
    #[error("The master at {master} does not answer: {reason}")]
    NoList {
        /// Its address.
        master: String,
        /// What went wrong.
        reason: String,
    },
    /// No other segment takes objects.
    #[error("No other node takes objects; a drain needs one with room")]
    Nowhere,
    /// The master does not know the segments, or does not know yet what lies there.
    #[error(
        "The master does not know {0}: a name is wrong (perigee status lists them), or its owner has not \
         mounted it again after the master's start"
    )]
    NotMounted(Unlisted),
    /// The master has just started and lists nothing of this process or host.
    #[error(
        "The master has just started and may not know yet what lies here; drain again, with more time"
    )]
    Unsettled,
    /// A restarted master has forgotten the job.
    #[error("The master has been started again and has forgotten the job")]
    Forgotten,
    /// The master refused the job.
    #[error("The master refused to drain: {0}")]
    Refused(String),
    /// The job ended without success.
    #[error(
        "Not every object could be moved: {0}; clients still read what is left until its owner stops"
    )]
    Left(String),
    /// The time is over.
    #[error("There was no time to move all: {0}; give it more time")]
    Late(String),
    /// The time is over, and more of it would not help.
    #[error(
        "No other node has room for what is left: {0}; start another node or remove objects, then drain again"
    )]
    NoRoom(String),
}

/// Of `perigee drain` and of the node.
const MASTER_PORT_FLAGS: &str = "--metrics_port, of a node --master_metrics_port,";

impl DrainError {
    /// The status whose exit code a program ends with.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Ambiguous(_) | Self::Refused(_) | Self::NotMounted(_) => Status::InvalidParams,
            Self::NoAnswer { .. } | Self::NoMaster { .. } | Self::NoList { .. } => Status::RpcFail,
            Self::Forgotten | Self::Unsettled => Status::RpcFail,
            Self::Left(_) | Self::Late(_) | Self::NoRoom(_) | Self::Nowhere => {
                Status::NoAvailableHandle
            }
        }
    }
}
