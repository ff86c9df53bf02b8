//! What came of a request. Invariant: one status per piece.

use crate::server_times::ServerTimes;
use perigee_schemas::Status;

/// A decoded reply: one status per piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Why each piece was refused, or that it was not.
    pub status: Vec<Status>,
    /// CRC-32C of each piece of a read that asked for it; none otherwise.
    pub checksum: Vec<u32>,
    /// What it cost the server; zero from one that does not say.
    pub times: ServerTimes,
    /// Where the bytes lie, if they have not come: only for a reader ([`Slice::reader`]).
    ///
    /// [`Slice::reader`]: crate::Slice::reader
    pub staged: Option<StagedPlaces>,
    pub(crate) payload_bytes: u64,
}

/// Where the owner keeps bytes for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedPlaces {
    /// What they are kept for, until it is returned or its time is over.
    pub ticket: u64,
    /// Address of each piece at the owner; 0 of one that was refused.
    pub addresses: Vec<u64>,
}

impl Reply {
    /// Whether all pieces were moved.
    pub fn is_fine(&self) -> bool {
        self.status.iter().all(|status| *status == Status::Ok)
    }
}
