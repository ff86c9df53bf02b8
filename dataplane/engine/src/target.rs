//! A peer's segment as this engine reaches it: over TCP, over RDMA, through memory.
//! Invariant: a target never changes; a peer that restarted or moved is another target.

use crate::shared_memory::local_peer::LocalPeer;
use perigee_mover::Dialect;
use std::sync::Arc;

/// A peer's segment.
#[derive(Debug)]
pub(crate) struct PeerSegment {
    /// Over TCP, which reaches every peer.
    pub(crate) tcp: Arc<perigee_mover::Target>,
    /// Over RDMA, if both sides have rails: where leases are asked for.
    pub(crate) rails: Option<Arc<str>>,
    /// Through memory, if the peer is on this host.
    pub(crate) local: Option<LocalPeer>,
}

impl PeerSegment {
    /// The segment's name.
    pub(crate) fn name(&self) -> &Arc<str> {
        self.tcp.name()
    }

    /// Whether the peer was met in this run, if it says.
    pub(crate) fn is_of_life(&self, life: u64) -> bool {
        match self.tcp.dialect() {
            Dialect::Own { epoch } => epoch.is_none_or(|epoch| epoch == life),
            Dialect::Mooncake { .. } => false,
        }
    }

    /// Closes the idle connections and drops mapped memory.
    pub(crate) fn close(&self) {
        self.local.iter().for_each(LocalPeer::close);
        self.tcp.close();
    }
}
