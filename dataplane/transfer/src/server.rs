//! Serving the segments of this process: slices over TCP on shards, descriptors over a Unix socket.

mod connection;
mod rails;
mod rendezvous;
mod shard_server;
mod state;

pub use shard_server::ShardServer;

use crate::limits::STOP_DEADLINE;
use crate::rails::Rails;
use crate::segments::SegmentTable;
use perigee_memory::rendezvous::RendezvousError;
use perigee_schemas::Identity;
use perigee_shard::{
    Congestion, Environment, Listener, Local, Shard, ShardEnvironment, ShardOptions, SocketError,
};
use rendezvous::{Offering, RendezvousServer};
use state::{Ground, ServerState};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
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
    Executor(#[from] perigee_shard::ExecutorError),
    /// The data port cannot be listened on.
    #[error("Data port: {0}")]
    Socket(#[from] SocketError),
    /// The socket for handing out descriptors cannot be made.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// A shard did not report in time.
    #[error("A data shard did not come up within {STOP_DEADLINE:?}")]
    Late,
}

/// The data port of a process and, if it shares memory, its rendezvous.
#[derive(Debug)]
pub struct SegmentServer {
    address: SocketAddr,
    shards: Vec<(Shard, Local<ServerState<ShardEnvironment>>)>,
    rendezvous: Option<RendezvousServer>,
}

type Report = Result<(SocketAddr, Local<ServerState<ShardEnvironment>>), SocketError>;

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
        let mut server = Self {
            address: options.address,
            shards: Vec::new(),
            rendezvous,
        };
        for index in 0..options.shards.max(1) {
            let (shard, tell) = start_shard(options, index, server.address, table.clone())?;
            let (address, state) = tell
                .recv_timeout(STOP_DEADLINE)
                .map_err(|_| ServerError::Late)??;
            server.address = address;
            server.shards.push((shard, state));
        }
        Ok(server)
    }

    /// The address of the data port.
    pub fn address(&self) -> SocketAddr {
        self.address
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
        for (shard, state) in &self.shards {
            let state = *state;
            shard.post(Box::new(move |environment| {
                if let Some(state) = environment.local(state) {
                    state.stop();
                }
            }));
        }
        for (shard, _) in self.shards {
            if let Err(error) = shard.join(STOP_DEADLINE) {
                tracing::warn!(%error, "A data shard is left behind");
            }
        }
    }
}

fn start_shard(
    options: &ServerOptions,
    index: usize,
    address: SocketAddr,
    table: Arc<SegmentTable>,
) -> Result<(Shard, std::sync::mpsc::Receiver<Report>), ServerError> {
    let (tell, told) = channel();
    let shared = options.shards > 1;
    let congestion = options.congestion.clone();
    let ground = Ground {
        table,
        identity: options.identity,
        rails: options.rails.clone(),
    };
    let placement = ShardOptions {
        name: "perigee-data".to_owned(),
        cpu: options.cpus.get(index).copied(),
        poll: options.poll,
    };
    let shard = Shard::start(placement, move |environment| async move {
        environment.set_congestion(congestion);
        serve(environment, address, shared, ground, tell).await;
    })?;
    Ok((shard, told))
}

async fn serve(
    environment: ShardEnvironment,
    address: SocketAddr,
    shared: bool,
    ground: Ground,
    tell: Sender<Report>,
) {
    let listener = match environment.listen(address, shared) {
        Ok(listener) => Rc::new(listener),
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    let state = Rc::new(ServerState::new(
        environment.clone(),
        listener.clone(),
        ground,
    ));
    let name = environment.keep(state.clone());
    let _ = tell.send(Ok((listener.local_address().unwrap_or(address), name)));
    drop(listener);
    state.accept().await;
    state.drained().await;
    environment.give_up(name);
}
