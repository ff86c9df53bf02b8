//! What the connections of a data port have beside the memory that they move.
//! Invariant: what a connection holds ends with it.

use crate::stats::CounterTable;
use perigee_schemas::Identity;
use perigee_schemas::frame::MessageKind;
use perigee_shard::{Environment, Guard as KeptMemory};
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What all connections of a server have in common.
#[derive(Clone, Debug)]
pub struct ServerContext<S> {
    /// Random identity of this run of the process.
    pub identity: Identity,
    /// Counts by the NIC that a connection came through.
    pub counters: Arc<CounterTable>,
    /// What sessions are made from ([`ConnectionState::Shared`]).
    pub shared: S,
}

/// What one connection has beside its moves. Dropped when the connection ends.
pub trait ConnectionState: 'static {
    /// What all connections of a server share.
    type Shared: Clone + Debug + Send + Sync + 'static;

    /// For a new connection.
    fn begin(shared: &Self::Shared) -> Self;

    /// Longest that the peer may be silent between two frames; `None` for as long as it likes.
    fn silence(&self) -> Option<Duration> {
        None
    }

    /// Keeps ranges of this process's memory, each first byte and length, for the rails of `reader`
    /// from `now` on. The ticket that ends it; `None` if that run of rails reads none of them.
    fn keep_for(
        &self,
        reader: u64,
        ranges: &[(u64, u64)],
        kept: KeptMemory,
        now: Duration,
    ) -> Option<u64> {
        let _ = (reader, ranges, kept, now);
        None
    }

    /// Ends what the answer of that ticket did not tell anyone.
    fn take_back(&self, reader: u64, ticket: u64) {
        let _ = (reader, ticket);
    }

    /// The whole frame that answers a frame of another kind than a move.
    ///
    /// # Errors
    /// This port does not serve it: the connection ends.
    fn answer<E: Environment>(
        &mut self,
        environment: &E,
        kind: MessageKind,
        body: &[u8],
    ) -> impl Future<Output = io::Result<Vec<u8>>>;
}

/// A port on which only moves are served.
impl ConnectionState for () {
    type Shared = ();

    fn begin((): &()) -> Self {}

    async fn answer<E: Environment>(
        &mut self,
        _: &E,
        _: MessageKind,
        _: &[u8],
    ) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::InvalidData, "Only moves are served on this port"))
    }
}
