//! What connections to owners share with callers: peers, names, and how new rails are proven.
//! Invariant: a proof is a read of a peer's memory into memory of ours that nothing else uses.

use crate::limits::PROBE_DEADLINE;
use crate::peers::Peers;
use crate::remote::PeerRails;
use crate::stages::{StageLoan, Stages};
use crate::wire::RailsReply;
use perigee_mover::Names;
use perigee_rails::{PeerHandle, RailEngine, RailError, RailRequest, Sink, deadline_in};
use perigee_schemas::Direction;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Bytes that prove rails.
const PROBE_BYTES: u64 = 8;

/// What connections and callers share.
#[derive(Debug)]
pub(crate) struct RdmaContext {
    pub(crate) peers: Peers,
    pub(crate) names: Arc<Names>,
    pub(crate) stages: Arc<Stages>,
    /// Set once, before the first connection.
    pub(crate) engine: OnceLock<RailEngine>,
}

impl RdmaContext {
    fn engine(&self) -> Result<&RailEngine, RailError> {
        self.engine.get().ok_or(RailError::Closed)
    }

    /// Number of this run of our rails.
    pub(crate) fn epoch(&self) -> Result<u64, RailError> {
        Ok(self.engine()?.epoch())
    }

    /// Version of a peer's list that is at hand; 0 for none.
    pub(crate) fn version(&self, endpoint: &Arc<str>) -> u64 {
        self.peers.last(endpoint).map_or(0, |rails| rails.version())
    }

    /// Takes over what a peer said of itself, who left its list out if that is version `known`, and
    /// proves its rails if they are new.
    pub(crate) fn learn(
        self: &Arc<Self>,
        (endpoint, life): (&Arc<str>, u64),
        reply: &RailsReply,
        known: u64,
        asked_at: Duration,
    ) -> Result<PeerHandle, RailError> {
        let peer = self.engine()?.open_peer(endpoint, &reply.peer)?;
        // Keys of an earlier run name memory that is of other use by now.
        let before = self.peers.last(endpoint);
        let before = before.filter(|before| before.peer().epoch() == peer.epoch());
        if known != 0 && reply.version == known {
            let same = before.filter(|before| before.version() == known);
            same.iter().for_each(|same| same.renew(asked_at, reply.lease_ms));
            return Ok(peer);
        }
        let before = before.as_deref();
        let rails = PeerRails::new(peer.clone(), life, reply, before, asked_at);
        let rails = Arc::new(rails);
        if self.peers.learned(endpoint, rails.clone()) {
            self.prove(endpoint, &rails)?;
        }
        Ok(peer)
    }

    /// Forgets the queue pairs to a peer.
    pub(crate) fn forget(&self, peer: &PeerHandle) {
        if let Some(engine) = self.engine.get() {
            engine.forget_peer(peer);
        }
    }

    fn prove(self: &Arc<Self>, endpoint: &Arc<str>, rails: &PeerRails) -> Result<(), RailError> {
        let engine = self.engine()?;
        let Some(region) = rails.regions().first() else {
            return Ok(());
        };
        let mut loan = StageLoan::new(&self.stages);
        let slot = loan.slot(engine, PROBE_BYTES);
        let slot = slot.ok_or_else(|| RailError::NoRail {
            reason: "no registered memory is free".to_owned(),
        })?;
        debug_assert!(slot.registration.contains(slot.address, PROBE_BYTES));
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
            reach: Arc::downgrade(self),
            endpoint: endpoint.clone(),
            epoch: rails.peer().epoch(),
            _loan: loan,
        });
        let deadline = deadline_in(PROBE_DEADLINE);
        // SAFETY: the memory is lent to the sink, which lives until it has got the end of the
        // request.
        unsafe { engine.submit(rails.peer(), &[request], deadline, &sink) }?;
        Ok(())
    }
}

/// Waits for the first bytes.
struct Probe {
    reach: Weak<RdmaContext>,
    endpoint: Arc<str>,
    /// The run of the peer whose rails they go over.
    epoch: u64,
    _loan: StageLoan,
}

impl Sink for Probe {
    fn finished(&self, _tag: u64, outcome: Result<(), RailError>) {
        let Some(reach) = self.reach.upgrade() else {
            return;
        };
        match &outcome {
            Ok(()) => tracing::info!(peer = %self.endpoint, "Reached over RDMA"),
            Err(error) => {
                tracing::info!(%error, peer = %self.endpoint, "Not reached over RDMA, TCP is used");
            }
        }
        let peers = &reach.peers;
        peers.tried(&self.endpoint, self.epoch, outcome.is_ok());
    }
}
