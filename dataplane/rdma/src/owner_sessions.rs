//! The shard on which the talks run, and what reaches it from other threads.
//! Invariant: nobody waits here; an offer that cannot be delivered is answered by an error.

use super::links::Links;
use super::talk::{Order, Talks};
use crate::error::TransferError;
use perigee_mover::STOP_DEADLINE;
use perigee_rails::{EndpointOffer, Exchange, ExchangeDone};
use perigee_schemas::Identity;
use perigee_shard::{Environment, Local, Mailbox, Shard, ShardEnvironment, ShardOptions};
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

/// Carries orders to the talks.
#[derive(Debug)]
pub(super) struct Courier {
    mailbox: Mailbox,
    talks: Local<Talks<ShardEnvironment>>,
    /// Until it is stopped.
    shard: Mutex<Option<Shard>>,
}

impl Courier {
    pub(super) fn start(identity: Identity, links: &Arc<Links>) -> Result<Self, TransferError> {
        let (tell, told) = channel();
        let links = links.clone();
        let options = ShardOptions::named("perigee-talk");
        let shard = Shard::start(options, move |environment| async move {
            let talks = Rc::new(Talks::new(environment.clone(), identity, links));
            let name = environment.keep(talks.clone());
            let _ = tell.send(name);
            talks.ended().await;
            environment.give_up(name);
        })
        .map_err(|error| TransferError::Engine(error.to_string()))?;
        let talks = told
            .recv_timeout(STOP_DEADLINE)
            .map_err(|_| TransferError::Engine("the shard for talks did not come up".to_owned()))?;
        Ok(Self {
            mailbox: shard.mailbox(),
            talks,
            shard: Mutex::new(Some(shard)),
        })
    }

    /// Gives an order to the talk with an owner.
    pub(super) fn order(&self, endpoint: &Arc<str>, order: Order) {
        let (talks, endpoint) = (self.talks, endpoint.clone());
        self.mailbox.post(Box::new(move |environment| {
            if let Some(talks) = environment.local(talks) {
                talks.order(&endpoint, order);
            }
        }));
    }

    /// Ends all talks and gives the executor back.
    pub(super) fn stop(&self) {
        let mut shard = self.shard.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(shard) = shard.take() else {
            return;
        };
        let talks = self.talks;
        shard.post(Box::new(move |environment| {
            if let Some(talks) = environment.local(talks) {
                talks.stop();
            }
        }));
        if let Err(error) = shard.join(STOP_DEADLINE) {
            tracing::warn!(%error, "The shard for talks is left behind");
        }
    }
}

impl Exchange for Courier {
    fn exchange(&self, peer: &str, offer: EndpointOffer, done: ExchangeDone) {
        self.order(&Arc::from(peer), Order::Offer(offer, done));
    }
}
