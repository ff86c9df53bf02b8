//! The owner's side of a data connection on which a peer asks for rails. Invariant: a peer whose
//! connection ends, or that is silent for longer than its lease, has no queue pairs here any more.

use crate::limits::{ANSWER_DEADLINE, ANSWER_PAUSE, LEASE};
use crate::pair_joiner::{AnswerSlot, PairLease};
use crate::rdma::Rdma;
use crate::wire::{self as rails_wire, RailsReply};
use perigee_mover::ConnectionState;
use perigee_schemas::Status;
use perigee_schemas::frame::MessageKind;
use perigee_shard::{Environment, Guard};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What one connection has to do with rails.
pub struct PeerSession {
    rdma: Option<Arc<Rdma>>,
    pairs: Option<PairLease>,
}

impl PeerSession {
    async fn describe<E: Environment>(
        &mut self,
        environment: &E,
        body: &[u8],
    ) -> io::Result<Vec<u8>> {
        let request = rails_wire::decode_request(body)?;
        let Some(rdma) = &self.rdma else {
            return Ok(rails_wire::encode_no_rails(Status::NotSupported));
        };
        // Taken out until the fence has ended: if that fails, the lease goes with its queue pairs.
        let pairs = match self.pairs.take() {
            Some(pairs) if pairs.epoch() == request.epoch => pairs,
            _ => rdma.joiner().lease(request.epoch),
        };
        debug_assert_eq!(pairs.epoch(), request.epoch, "queue pairs of another run are fenced");
        if request.fence {
            let fenced = wait(environment, &pairs.fence()).await;
            fenced.and_then(|fenced| fenced.map_err(io::Error::other))?;
        }
        pairs.tickets().take_back(&request.returned);
        pairs.tickets().end_old(environment.now());
        self.pairs = Some(pairs);
        let (regions, version) = rdma.lent().describe(request.version, LEASE);
        Ok(rails_wire::encode_reply(&RailsReply {
            peer: rdma.engine().descriptor(),
            regions,
            version,
            lease_ms: LEASE.as_millis() as u32,
        }))
    }

    async fn join<E: Environment>(&self, environment: &E, body: &[u8]) -> io::Result<Vec<u8>> {
        let offer = rails_wire::decode_offer(body)?;
        let answer = match &self.pairs {
            Some(pairs) => wait(environment, &pairs.accept(offer)).await?,
            None => Err("ask for rails on this connection first".to_owned()),
        };
        Ok(rails_wire::encode_answer(&answer))
    }
}

impl ConnectionState for PeerSession {
    /// The RDMA of the process, if it has any.
    type Shared = Option<Arc<Rdma>>;

    fn begin(rdma: &Self::Shared) -> Self {
        Self { rdma: rdma.clone(), pairs: None }
    }

    /// A connection that has queue pairs must not be silent for longer than their lease.
    fn silence(&self) -> Option<Duration> {
        self.pairs.as_ref().map(|_| LEASE)
    }

    /// A reader's tickets are those of its connection about rails, whichever connection it asks on.
    fn keep_for(
        &self,
        reader: u64,
        ranges: &[(u64, u64)],
        kept: Guard,
        now: Duration,
    ) -> Option<u64> {
        let rdma = self.rdma.as_ref()?;
        let is_lent = |(address, bytes): &(u64, u64)| rdma.lent().find(*address, *bytes).is_some();
        ranges.iter().all(is_lent).then_some(())?;
        rdma.joiner().tickets_of(reader)?.issue(kept, now)
    }

    fn take_back(&self, reader: u64, ticket: u64) {
        let tickets = self.rdma.as_ref().and_then(|rdma| rdma.joiner().tickets_of(reader));
        tickets.iter().for_each(|tickets| tickets.take_back(&[ticket]));
    }

    async fn answer<E: Environment>(
        &mut self,
        environment: &E,
        kind: MessageKind,
        body: &[u8],
    ) -> io::Result<Vec<u8>> {
        match kind {
            MessageKind::Rails => self.describe(environment, body).await,
            MessageKind::Pairs => self.join(environment, body).await,
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "Only moves and rails are served on a data port",
            )),
        }
    }
}

/// Waits for a joining thread, for a bounded time.
async fn wait<E: Environment, T>(environment: &E, answer: &AnswerSlot<T>) -> io::Result<T> {
    let end = environment.now() + ANSWER_DEADLINE;
    loop {
        if let Some(answer) = answer.take() {
            return Ok(answer);
        }
        if environment.now() >= end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        environment.sleep(ANSWER_PAUSE).await;
    }
}
