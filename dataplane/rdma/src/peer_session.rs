//! A data connection on which a client asks for rails. Invariant: a client whose connection ends, or that is silent for
//! longer than its lease, has no queue pairs here any more.

use crate::limits::{RAIL_ANSWER, RAIL_ANSWER_PAUSE, RAIL_LEASE};
use crate::rails::Rails;
use crate::rails::desk::{Answer, Keeping};
use crate::rails::wire::{self as rail_wire, RailsReply};
use perigee_mover::Session;
use perigee_schemas::Status;
use perigee_schemas::frame::Kind;
use perigee_shard::Environment;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What one connection has to do with rails.
pub(crate) struct RailSession {
    rails: Option<Arc<Rails>>,
    keeping: Option<Keeping>,
}

impl RailSession {
    pub(super) fn new(rails: Option<Arc<Rails>>) -> Self {
        let keeping = None;
        Self { rails, keeping }
    }

    async fn describe<E: Environment>(
        &mut self,
        environment: &E,
        body: &[u8],
    ) -> io::Result<Vec<u8>> {
        let request = rail_wire::decode_request(body)?;
        let Some(rails) = &self.rails else {
            return Ok(rail_wire::encode_no_rails(Status::NotSupported));
        };
        let keeping = match self.keeping.take() {
            Some(keeping) if keeping.epoch() == request.epoch => keeping,
            _ => rails.desk().keep(request.epoch),
        };
        if request.fence {
            let fenced = wait(environment, &keeping.fence()).await;
            fenced.and_then(|fenced| fenced.map_err(io::Error::other))?;
        }
        self.keeping = Some(keeping);
        Ok(rail_wire::encode_reply(&RailsReply {
            peer: rails.engine().descriptor(),
            regions: rails.served().describe(RAIL_LEASE),
            lease_ms: RAIL_LEASE.as_millis() as u32,
        }))
    }

    async fn join<E: Environment>(&self, environment: &E, body: &[u8]) -> io::Result<Vec<u8>> {
        let offer = rail_wire::decode_offer(body)?;
        let answer = match &self.keeping {
            Some(keeping) => wait(environment, &keeping.accept(offer)).await?,
            None => Err("ask for rails on this connection first".to_owned()),
        };
        Ok(rail_wire::encode_answer(&answer))
    }
}

impl Session for RailSession {
    /// A connection that keeps queue pairs must not be silent for longer than their lease.
    fn silence(&self) -> Option<Duration> {
        self.keeping.as_ref().map(|_| RAIL_LEASE)
    }

    async fn answer<E: Environment>(
        &mut self,
        environment: &E,
        kind: Kind,
        body: &[u8],
    ) -> io::Result<Vec<u8>> {
        match kind {
            Kind::Rails => self.describe(environment, body).await,
            Kind::Pairs => self.join(environment, body).await,
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "Only moves and rails are served on a data port",
            )),
        }
    }
}

/// Waits for a control thread, for a bounded time.
async fn wait<E: Environment, T>(environment: &E, answer: &Answer<T>) -> io::Result<T> {
    let end = environment.now() + RAIL_ANSWER;
    loop {
        if let Some(answer) = answer.take() {
            return Ok(answer);
        }
        if environment.now() >= end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        environment.sleep(RAIL_ANSWER_PAUSE).await;
    }
}
