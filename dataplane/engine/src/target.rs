//! A peer's segment as this engine reaches it: over TCP, over RDMA, through memory.
//! Invariant: a target never changes; a peer that restarted or moved is another target.

use crate::rdma::RemoteRails;
use crate::shared_memory::LocalPeer;
use std::sync::Arc;

/// A peer's segment.
#[derive(Debug)]
pub(crate) struct Target {
    /// Over TCP, which reaches every peer.
    pub(crate) tcp: Arc<perigee_mover::Target>,
    /// Over RDMA, if both sides have rails.
    pub(crate) rails: Option<RemoteRails>,
    /// Through memory, if the peer is on this host.
    pub(crate) local: Option<LocalPeer>,
}

impl Target {
    /// The segment's name.
    pub(crate) fn name(&self) -> &Arc<str> {
        self.tcp.name()
    }

    /// Closes the idle connections and drops mapped memory.
    pub(crate) fn close(&self) {
        self.local.iter().for_each(LocalPeer::close);
        self.tcp.close();
    }
}
