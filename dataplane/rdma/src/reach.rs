//! What the talks with peers share with the callers: peers, names, and how new rails are proven.
//! Invariant: a proof is a read of a peer's memory into memory of ours that nobody else uses.

use super::peers::{Peers, Reached, Region};
use super::stage::{Loan, Stages};
use super::wire::RailsReply;
use crate::client::Names;
use crate::limits::RAIL_PROBE_DEADLINE;
use perigee_rails::{
    Direction, PeerHandle, RailEngine, RailError, RailRequest, RemoteKeys, Sink, deadline_in,
};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Bytes that prove rails.
const PROBE_BYTES: u64 = 8;

/// What talks and callers share.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) peers: Peers,
    pub(crate) names: Arc<Names>,
    pub(crate) stages: Arc<Stages>,
    /// Set once, before the first talk.
    pub(crate) engine: OnceLock<RailEngine>,
}

impl Links {
    fn engine(&self) -> Result<&RailEngine, RailError> {
        self.engine.get().ok_or(RailError::Closed)
    }

    /// Life of our rails.
    pub(crate) fn epoch(&self) -> Result<u64, RailError> {
        Ok(self.engine()?.epoch())
    }

    /// Takes over what a peer said of itself, and proves its rails if they are new.
    pub(crate) fn learn(
        self: &Arc<Self>,
        endpoint: &Arc<str>,
        reply: &RailsReply,
        asked_at: Duration,
    ) -> Result<PeerHandle, RailError> {
        let peer = self.engine()?.open_peer(endpoint, &reply.peer)?;
        let region = |(id, region): &(_, perigee_rails::RegionDescriptor)| {
            let keys = RemoteKeys::new(region, asked_at).ok()?;
            let base = region.address;
            Some((
                *id,
                Region {
                    keys: Arc::new(keys),
                    base,
                },
            ))
        };
        let reached = Arc::new(Reached {
            peer: peer.clone(),
            regions: reply.regions.iter().filter_map(region).collect(),
        });
        if self.peers.learned(endpoint, reached.clone()) {
            self.prove(endpoint, &reached)?;
        }
        Ok(peer)
    }

    /// Forgets the queue pairs to a peer.
    pub(crate) fn forget(&self, peer: &PeerHandle) {
        if let Some(engine) = self.engine.get() {
            engine.forget_peer(peer);
        }
    }

    fn prove(self: &Arc<Self>, endpoint: &Arc<str>, reached: &Reached) -> Result<(), RailError> {
        let engine = self.engine()?;
        let Some(region) = reached.regions.values().next() else {
            return Ok(());
        };
        let mut loan = Loan::new(&self.stages);
        let slot = loan.slot(engine, PROBE_BYTES);
        let slot = slot.ok_or_else(|| RailError::NoRail {
            reason: "no registered memory is free".to_owned(),
        })?;
        let request = RailRequest {
            direction: Direction::Read,
            local: slot.registration,
            local_address: slot.address,
            keys: region.keys.clone(),
            remote_address: region.base,
            bytes: PROBE_BYTES,
            tag: 0,
        };
        let sink: Arc<dyn Sink> = Arc::new(Probe {
            links: Arc::downgrade(self),
            endpoint: endpoint.clone(),
            _loan: loan,
        });
        let deadline = deadline_in(RAIL_PROBE_DEADLINE);
        // SAFETY: the memory is lent to the sink, which lives until it was told about the request.
        unsafe { engine.submit(&reached.peer, &[request], deadline, &sink) }?;
        Ok(())
    }
}

/// Waits for the first bytes.
struct Probe {
    links: Weak<Links>,
    endpoint: Arc<str>,
    _loan: Loan,
}

impl Sink for Probe {
    fn finished(&self, _tag: u64, outcome: Result<(), RailError>) {
        let Some(links) = self.links.upgrade() else {
            return;
        };
        match outcome {
            Ok(()) => {
                tracing::info!(peer = %self.endpoint, "Reached over RDMA");
                links.peers.proven(&self.endpoint);
            }
            Err(error) => {
                tracing::info!(%error, peer = %self.endpoint, "Not reached over RDMA, TCP is used");
                links.peers.suspend(&self.endpoint);
            }
        }
    }
}
