//! The route over rails to one owner. Invariant: it is used only while the owner's lease on it
//! holds.

use perigee_rdma::{PeerRails, RemoteRegion};
use std::sync::Arc;

/// The rails that lead to a segment.
#[derive(Clone, Debug)]
pub(crate) struct RailRoute {
    pub(super) endpoint: Arc<str>,
    pub(super) rails: Arc<PeerRails>,
    pub(super) region: RemoteRegion,
}
