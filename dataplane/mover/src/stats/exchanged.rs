//! What a slice learns about the exchange that moved it. Invariant: it lives no longer than the
//! call that tells it.

use super::counters::RouteCounters;
use std::sync::Arc;

/// What a slice learns about the exchange that moved it.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged<'a> {
    /// Name of the peer.
    pub peer: &'a str,
    /// Of the NIC that it went over.
    pub counters: &'a Arc<RouteCounters>,
}
