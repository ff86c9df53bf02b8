//! Serving the segments of this process: slices over TCP on shards, whole segments to processes of
//! this host.

mod disk_read;
mod owner;
mod shard_server;

pub use shard_server::SegmentShardServer;

use crate::client::ObjectSlice;
use crate::segments::SegmentTable;
use perigee_memory::shared::Owner;
use perigee_mover::{
    Dialects, MoveService, Server, ServerContext, Shards, ShardsError, ShardsOptions,
};
use perigee_rdma::Rdma;
use perigee_schemas::Identity;
use perigee_shard::Congestion;
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
    /// Abstract Unix socket on which segments are handed to this host; `None` shares no memory.
    pub rendezvous: Option<String>,
    /// Random identity of this process.
    pub identity: Identity,
    /// Over which peers reach the segments; `None` serves them over TCP only.
    pub rdma: Option<Arc<Rdma>>,
}

/// Why serving could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentServerError {
    /// The executor cannot be started.
    #[error(transparent)]
    Shards(#[from] ShardsError),
    /// The data port cannot be listened on.
    #[error(transparent)]
    Port(#[from] perigee_mover::ServerError),
}

/// The data port of a process and, if it shares memory, what hands that out.
#[derive(Debug)]
pub struct SegmentServer {
    server: Server<SegmentTable>,
    shards: Shards<ObjectSlice>,
    sharing: Option<Owner>,
}

impl SegmentServer {
    /// Begins to serve `table`.
    ///
    /// # Errors
    /// The port is taken, or no executor can start; the message says what to change.
    pub fn start(
        options: &ServerOptions,
        table: &Arc<SegmentTable>,
    ) -> Result<Self, SegmentServerError> {
        let sharing = options.rendezvous.clone();
        let sharing = sharing.map(|socket| Owner::new(socket, table.clone()));
        sharing.iter().for_each(Owner::extend);
        let shards = Shards::start(&ShardsOptions {
            name: "perigee-data",
            count: options.shards,
            cpus: options.cpus.clone(),
            poll: options.poll,
            identity: options.identity,
            congestion: options.congestion.clone(),
        })?;
        let context = ServerContext {
            identity: options.identity,
            counters: Arc::default(),
            shared: options.rdma.clone(),
        };
        let service = MoveService::new(table.clone(), context, Dialects::Own);
        let server = Server::start(&shards.mailboxes(), options.address, &service)?;
        Ok(Self { server, shards, sharing })
    }

    /// The address of the data port.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Lets peers on this host have a segment that was put into the table.
    pub fn extend_sharing(&self) {
        self.sharing.iter().for_each(Owner::extend);
    }

    /// Takes all segments back from peers on this host, after some were taken out of the table.
    pub fn withdraw_sharing(&self) {
        self.sharing.iter().for_each(Owner::withdraw);
    }

    /// Breaks all connections and gives the executors back.
    pub fn stop(self) {
        drop(self.sharing);
        self.server.stop();
        self.shards.stop();
    }
}
