//! Serving the segments of this process: slices over TCP on shards, descriptors over a Unix socket.

mod owner;
mod rendezvous;
mod session;
mod shard_server;

pub use shard_server::ShardServer;

use crate::client::ObjectSlice;
use crate::rails::Rails;
use crate::segments::SegmentTable;
use owner::SegmentOwner;
use perigee_memory::rendezvous::RendezvousError;
use perigee_mover::{Dialects, Ledger, Server, Shards, ShardsError, ShardsOptions};
use perigee_schemas::Identity;
use perigee_shard::Congestion;
use rendezvous::{Offering, RendezvousServer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How segments are served.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen; port 0 chooses one.
    pub address: SocketAddr,
    /// Number of shards.
    pub shards: usize,
    /// CPUs to pin the shards to, in order; shards beyond the list are not pinned.
    pub cpus: Vec<usize>,
    /// How long a shard polls after its last completion.
    pub poll: Duration,
    /// Congestion control of data connections.
    pub congestion: Congestion,
    /// Abstract Unix socket on which descriptors are handed out; `None` shares no memory.
    pub rendezvous: Option<String>,
    /// Random identity of this process.
    pub identity: Identity,
    /// Rails over which peers reach the segments; `None` serves them over TCP only.
    pub rails: Option<Arc<Rails>>,
}

/// Why serving could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No executor is to be had.
    #[error(transparent)]
    Shards(#[from] ShardsError),
    /// The data port cannot be listened on.
    #[error(transparent)]
    Port(#[from] perigee_mover::ServerError),
    /// The socket for handing out descriptors cannot be made.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
}

/// The data port of a process and, if it shares memory, its rendezvous.
#[derive(Debug)]
pub struct SegmentServer {
    server: Server<SegmentOwner>,
    shards: Shards<ObjectSlice>,
    rendezvous: Option<RendezvousServer>,
}

impl SegmentServer {
    /// Begins to serve `table`.
    ///
    /// # Errors
    /// The port is taken, or no executor can start; the message says what to change.
    pub fn start(options: &ServerOptions, table: &Arc<SegmentTable>) -> Result<Self, ServerError> {
        let rendezvous = match &options.rendezvous {
            Some(name) => {
                let offering = Offering(table.clone());
                Some(RendezvousServer::open(name, "perigee-meet", offering)?)
            }
            None => None,
        };
        let shards = Shards::start(&ShardsOptions {
            name: "perigee-data",
            count: options.shards,
            cpus: options.cpus.clone(),
            poll: options.poll,
            identity: options.identity,
            congestion: options.congestion.clone(),
        })?;
        let owner = Arc::new(SegmentOwner {
            table: table.clone(),
            identity: options.identity,
            rails: options.rails.clone(),
            ledger: Ledger::default(),
        });
        let mailboxes = shards.mailboxes();
        let server = Server::start(&mailboxes, options.address, &owner, Dialects::Own)?;
        Ok(Self {
            server,
            shards,
            rendezvous,
        })
    }

    /// The address of the data port.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Makes peers on this host drop their mappings, after segments were taken out of the table.
    pub fn withdraw_mappings(&self) {
        if let Some(rendezvous) = &self.rendezvous {
            rendezvous.dismiss();
        }
    }

    /// Breaks all connections and gives the executors back.
    pub fn stop(self) {
        drop(self.rendezvous);
        self.server.stop();
        self.shards.stop();
    }
}
