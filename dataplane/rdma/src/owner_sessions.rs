//! The shard on which the sessions with owners run, and what reaches it from other threads.
//! Invariant: nothing waits here; an offer that cannot be delivered is answered by an error.

use crate::context::RdmaContext;
use crate::owner_session::{SessionOrder, Sessions, refuse};
use perigee_mover::STOP_DEADLINE;
use perigee_rails::{EndpointOffer, ExchangeDone, OfferExchange, RailError};
use perigee_schemas::Identity;
use perigee_shard::{
    Environment, Local, Mailbox, ShardEnvironment, ShardOf, ShardOptions, ShardStartError,
};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

type OnShard = Sessions<ShardEnvironment>;

/// Carries orders to the sessions.
#[derive(Debug)]
pub(crate) struct OwnerSessions {
    mailbox: Mailbox,
    sessions: Local<OnShard>,
    /// Until it is stopped.
    shard: Mutex<Option<ShardOf<OnShard>>>,
}

impl OwnerSessions {
    pub(crate) fn start(identity: Identity, reach: &Arc<RdmaContext>) -> Result<Self, RailError> {
        let reach = reach.clone();
        let make = async move |environment: &ShardEnvironment| {
            let sessions = Sessions::new(environment.clone(), identity, reach);
            Ok((Rc::new(sessions), ()))
        };
        let run = async |sessions: Rc<OnShard>| sessions.ended().await;
        let options = ShardOptions::named("perigee-session");
        let started = ShardOf::start(options, STOP_DEADLINE, make, run);
        let (shard, ()) = started.map_err(|error: ShardStartError<Infallible>| {
            RailError::Shard { reason: error.to_string() }
        })?;
        Ok(Self {
            mailbox: shard.mailbox(),
            sessions: shard.name(),
            shard: Mutex::new(Some(shard)),
        })
    }

    /// Gives an order to the session with an owner.
    pub(crate) fn order(&self, endpoint: &Arc<str>, order: SessionOrder) {
        let (sessions, endpoint) = (self.sessions, endpoint.clone());
        self.mailbox.post(Box::new(move |environment| match environment.local(sessions) {
            Some(sessions) => sessions.order(&endpoint, order),
            None => refuse(order, "RDMA of this process is closed"),
        }));
    }

    /// Ends all sessions and gives the executor back.
    pub(crate) fn stop(&self) {
        let taken = {
            let mut shard = self.shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.take()
        };
        let Some(shard) = taken else {
            return;
        };
        shard.with(|sessions| sessions.stop());
        if let Err(error) = shard.join(STOP_DEADLINE) {
            tracing::warn!(%error, "The shard for sessions with owners did not stop in time");
        }
    }
}

impl OfferExchange for OwnerSessions {
    fn exchange(&self, peer: &str, offer: EndpointOffer, done: ExchangeDone) {
        self.order(&Arc::from(peer), SessionOrder::Offer(offer, done));
    }
}
