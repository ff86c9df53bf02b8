//! How an offer reaches a peer and its answer comes back. Invariant: each offer is answered once,
//! if only with an error.

use crate::descriptor::{EndpointAnswer, EndpointOffer};

/// How the answer to an offer comes back, from any thread.
pub type ExchangeDone = Box<dyn FnOnce(Result<EndpointAnswer, String>) + Send>;

/// Carries offers of queue pairs to peers, over whatever handshake the engines have.
pub trait OfferExchange: Send + Sync {
    /// Takes `offer` to the engine that was opened as `peer`, has it [`RailEngine::accept`]ed
    /// there, and calls `done` with the answer. Called on a shard: it must not wait.
    fn exchange(&self, peer: &str, offer: EndpointOffer, done: ExchangeDone);
}
