//! Serving this process's memory: one listener per shard on one port.

mod connection;
pub(crate) mod dialects;
mod dispatch;
mod granted_range;
mod mooncake;
mod owner;
mod service;
mod serving;
mod session;
mod sums;
mod verdict;

pub use granted_range::{GrantedRange, RangeStage};
pub use owner::{FetchRequest, FetchedPieces, MemoryOwner, PieceRequest};
pub use service::MoveService;
pub use session::{ConnectionState, ServerContext};

use crate::limits::{SERVER_CONNECTIONS_MAX, STOP_DEADLINE};
use perigee_port::{Port, PortOptions};
use perigee_shard::{Environment, Local, Mailbox, ShardEnvironment, SocketError};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Why a port could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// It cannot be listened on.
    #[error("Data port: {0}")]
    Socket(#[from] SocketError),
    /// A shard did not report in time.
    #[error("A data shard did not come up within {STOP_DEADLINE:?}")]
    Late,
}

/// A data port of this process.
#[derive(Debug)]
pub struct Server<O: MemoryOwner> {
    address: SocketAddr,
    lanes: Vec<ShardPort<O>>,
}

/// Its part on one shard.
#[derive(Debug)]
struct ShardPort<O: MemoryOwner> {
    mailbox: Mailbox,
    port: PortName<O>,
    /// Disconnected when the last connection has ended.
    ended: Mutex<Receiver<()>>,
}

type PortName<O> = Local<Port<ShardEnvironment, MoveService<O>>>;
type StartReport<O> = Result<(SocketAddr, PortName<O>), SocketError>;

impl<O: MemoryOwner> Server<O> {
    /// Listens on every shard; port 0 chooses one.
    ///
    /// # Errors
    /// The port is taken, or the address is not of this host.
    pub fn start(
        shards: &[Mailbox],
        address: SocketAddr,
        service: &MoveService<O>,
    ) -> Result<Self, ServerError> {
        let mut server = Self { address, lanes: Vec::new() };
        for mailbox in shards {
            let (sender, receiver) = channel();
            let (end, ended) = channel();
            let (address, service) = (server.address, service.clone());
            mailbox.post(Box::new(move |environment| {
                listen(environment, address, service, &sender, end);
            }));
            let report: StartReport<O> =
                receiver.recv_timeout(STOP_DEADLINE).map_err(|_| ServerError::Late)?;
            let (address, port) = report?;
            server.address = address;
            server.lanes.push(ShardPort {
                mailbox: mailbox.clone(),
                port,
                ended: Mutex::new(ended),
            });
        }
        Ok(server)
    }

    /// The address of the data port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks the connections whose present request uses memory of this number
    /// ([`GrantedRange::new`]).
    pub fn revoke(&self, memory: usize) {
        self.each_port(move |port| port.service().revoke(port, memory));
    }

    /// Breaks the listeners and all connections. Returns when no shard touches the owner's memory
    /// any more, or one does not answer.
    pub fn stop(&self) {
        self.each_port(|port| port.stop());
        for lane in &self.lanes {
            let ended = lane.ended.lock().unwrap_or_else(PoisonError::into_inner);
            // Nothing is ever sent: the wait ends when the port has.
            let _ = ended.recv_timeout(STOP_DEADLINE);
        }
    }

    fn each_port(
        &self,
        work: impl Fn(&Port<ShardEnvironment, MoveService<O>>) + Clone + Send + 'static,
    ) {
        for lane in &self.lanes {
            let (name, work) = (lane.port, work.clone());
            lane.mailbox.post(Box::new(move |environment| {
                if let Some(port) = environment.local(name) {
                    work(&port);
                }
            }));
        }
    }
}

/// What could not start leaves no port open.
impl<O: MemoryOwner> Drop for Server<O> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen<O: MemoryOwner>(
    environment: &ShardEnvironment,
    address: SocketAddr,
    service: MoveService<O>,
    sender: &Sender<StartReport<O>>,
    end: Sender<()>,
) {
    let options = PortOptions::new(SERVER_CONNECTIONS_MAX);
    let port = match Port::listen(environment, (address, true), options, service) {
        Ok(port) => port,
        Err(error) => {
            let _ = sender.send(Err(error));
            return;
        }
    };
    let name = environment.keep(port.clone());
    let _ = sender.send(Ok((port.address(), name)));
    let own = environment.clone();
    environment.spawn(async move {
        port.serve().await;
        own.give_up(name);
        drop(end);
    });
}
