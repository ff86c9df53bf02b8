//! A peer as connections reach it: where, and in which dialect. Invariant: it never changes.

use crate::peer_address::{Dialect, PeerAddress};
use std::sync::Arc;

/// Name, addresses and dialect of a peer.
#[derive(Debug)]
pub(crate) struct ReachedPeer {
    /// What it is called in messages.
    pub(crate) name: Arc<str>,
    /// Where its data port is; the first is preferred for small transfers.
    pub(crate) addresses: Box<[PeerAddress]>,
    /// The protocol of its data port.
    pub(crate) dialect: Dialect,
}
