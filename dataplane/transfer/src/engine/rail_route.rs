//! The route over rails to one owner. Invariant: it is used only while the owner's lease on it
//! holds.

use crate::client::FarJob;
use perigee_rdma::{PeerRails, Rdma, RemoteRegion};
use std::sync::Arc;

/// The rails that lead to a segment, or to what a disk reads into.
#[derive(Clone, Debug)]
pub(crate) struct RailRoute {
    pub(super) endpoint: Arc<str>,
    pub(super) rails: Arc<PeerRails>,
    pub(super) region: RemoteRegion,
}

impl RailRoute {
    /// The rails to the segment of a job, or to the stage of its disk. If nothing is known of its
    /// owner, the owner is asked in the background.
    pub(super) fn to(rdma: &Rdma, endpoint: &Arc<str>, job: &FarJob) -> Option<Self> {
        let rails = rdma.rails_of(endpoint)?;
        let region = rails.segment(job.place.segment.id)?.clone();
        Some(Self { endpoint: endpoint.clone(), rails, region })
    }
}
