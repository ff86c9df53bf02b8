//! Where a peer is, and what it speaks there. Invariant: the same peer has the same address for all
//! threads.

use crate::stats::RouteCounters;
use std::net::SocketAddr;
use std::sync::Arc;

/// Which protocol a peer's data port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Ours.
    Own {
        /// The run that addresses belong to: low half of the identity that the peer welcomes with.
        /// `None` for segments, which have identities of their own.
        epoch: Option<u64>,
    },
    /// Mooncake's.
    Mooncake {
        /// Whether the peer answers with status frames.
        with_status: bool,
    },
}

/// An address of a peer, and the counts of the NIC towards it.
#[derive(Clone, Debug)]
pub struct PeerAddress {
    /// Where its data port listens.
    pub address: SocketAddr,
    /// Of the NIC towards it.
    pub counters: Arc<RouteCounters>,
}
