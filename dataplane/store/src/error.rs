//! Why a store could not be opened or a segment not be donated.

use perigee_discovery::DiscoveryError;
use perigee_memory::segment::SegmentError;
use perigee_rpc::CallError;
use perigee_schemas::Status;
use perigee_settings::SettingError;
use perigee_shard::ChoiceError;
use perigee_transfer::SegmentServerError;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A setting cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The master did not answer or refused.
    #[error(transparent)]
    Master(#[from] CallError),
    /// The master refused a segment.
    #[error("The master refused the segment: {0}")]
    Mount(Status),
    /// The memory cannot be allocated.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The segments cannot be served.
    #[error(transparent)]
    Server(#[from] SegmentServerError),
    /// The metadata service did not take the registration.
    #[error(
        "Metadata service {url}: {reason}; start it, correct metadata_server, or set it to P2PHANDSHAKE to do without one"
    )]
    Metadata {
        /// Its address.
        url: String,
        /// What it said.
        reason: String,
    },
    /// Shards cannot run, so that nothing larger than a few blocks could be moved.
    #[error(transparent)]
    Reactor(#[from] ChoiceError),
    /// Every port of the configured range is taken.
    #[error(
        "No port from {first} to {last} is free: end other clients of this host, or widen the range of \
         MC_STORE_CLIENT_MIN_PORT and MC_STORE_CLIENT_MAX_PORT"
    )]
    PortsTaken {
        /// First port of the range.
        first: u16,
        /// Last port of the range.
        last: u16,
    },
    /// The system gives no random numbers or no thread.
    #[error("The system refused: {0}")]
    System(String),
}

impl StoreError {
    /// The code that `setup` returns.
    pub fn status(&self) -> Status {
        match self {
            StoreError::Master(error) => error.status(),
            StoreError::Mount(status) => *status,
            StoreError::Setting(_)
            | StoreError::Metadata { .. }
            | StoreError::Segment(
                SegmentError::File { .. }
                | SegmentError::FileRange { .. }
                | SegmentError::Lent { .. }
                | SegmentError::NumaNode { .. }
                | SegmentError::Size { .. },
            ) => Status::InvalidParams,
            StoreError::Segment(_)
            | StoreError::Server(_)
            | StoreError::Reactor(_)
            | StoreError::PortsTaken { .. }
            | StoreError::System(_) => Status::InternalError,
        }
    }
}

impl From<DiscoveryError> for StoreError {
    fn from(error: DiscoveryError) -> Self {
        match error {
            DiscoveryError::Setting(error) => Self::Setting(error),
            other => Self::System(other.to_string()),
        }
    }
}
