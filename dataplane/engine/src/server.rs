//! Serving the registered memory of this process: one listener per shard on one port.

mod connection;
mod ground;
mod shard_server;
mod state;
mod upstream;

use crate::error::EngineError;
use crate::ledger::Ledger;
use crate::limits::STOP_DEADLINE;
use crate::registry::{Region, Registry};
use perigee_device::GivenDevices;
use perigee_schemas::Identity;
use perigee_shard::{Environment, Listener, Local, Mailbox, ShardEnvironment, SocketError};
pub use shard_server::{Leaving, ShardServer};
pub(crate) use state::ServerState;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// What every connection of a server needs.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) registry: Arc<Registry>,
    /// Random identity of this engine's life.
    pub(crate) identity: Identity,
    pub(crate) ledger: Arc<Ledger>,
    /// Accelerators whose memory is staged.
    pub(crate) devices: Option<GivenDevices>,
}

impl Host {
    pub(crate) fn new(
        identity: Identity,
        registry: &Arc<Registry>,
        ledger: &Arc<Ledger>,
        devices: Option<&GivenDevices>,
    ) -> Self {
        Self {
            registry: registry.clone(),
            identity,
            ledger: ledger.clone(),
            devices: devices.cloned(),
        }
    }
}

/// Which protocol a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    Own,
    Upstream,
}

/// A data port of an engine.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    lanes: Vec<(Mailbox, Local<ServerState<ShardEnvironment>>)>,
}

type Report = Result<(SocketAddr, Local<ServerState<ShardEnvironment>>), SocketError>;

impl Server {
    /// Listens on every shard; port 0 chooses one.
    pub(crate) fn start(
        shards: &[Mailbox],
        address: SocketAddr,
        host: &Arc<Host>,
        speech: Speech,
    ) -> Result<Self, EngineError> {
        let mut server = Self {
            address,
            lanes: Vec::new(),
        };
        for mailbox in shards {
            let (tell, told) = channel();
            let (address, host) = (server.address, host.clone());
            mailbox.post(Box::new(move |environment| {
                listen(environment, address, host, speech, &tell);
            }));
            let report: Report = told
                .recv_timeout(STOP_DEADLINE)
                .map_err(|_| EngineError::Start("a data shard did not come up".to_owned()))?;
            let (address, state) =
                report.map_err(|error| EngineError::Start(format!("data port: {error}")))?;
            server.address = address;
            server.lanes.push((mailbox.clone(), state));
        }
        Ok(server)
    }

    /// The address of the data port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks the connections of peers that use a buffer.
    pub(crate) fn revoke(&self, region: &Arc<Region>) {
        for (mailbox, state) in &self.lanes {
            let (state, region) = (*state, region.clone());
            mailbox.post(Box::new(move |environment| {
                if let Some(state) = environment.local(state) {
                    state.revoke(&region);
                }
            }));
        }
    }

    /// Breaks the listeners and all connections. Returns when no shard touches registered memory any more, or one does
    /// not answer.
    pub(crate) fn stop(&self) {
        let (tell, told) = channel::<()>();
        for (mailbox, state) in &self.lanes {
            let (state, tell) = (*state, tell.clone());
            mailbox.post(Box::new(move |environment| {
                let Some(kept) = environment.local(state) else {
                    return;
                };
                kept.stop();
                let own = environment.clone();
                environment.spawn(async move {
                    kept.drained().await;
                    own.give_up(state);
                    drop(tell);
                });
            }));
        }
        drop(tell);
        // Nobody sends: the wait ends when every shard has dropped its end.
        let _ = told.recv_timeout(STOP_DEADLINE);
    }
}

/// An engine that could not start leaves no port open.
impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(
    environment: &ShardEnvironment,
    address: SocketAddr,
    host: Arc<Host>,
    speech: Speech,
    tell: &Sender<Report>,
) {
    let listener = match environment.listen(address, true) {
        Ok(listener) => Rc::new(listener),
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    let address = listener.local_address().unwrap_or(address);
    let state = Rc::new(ServerState::new(
        environment.clone(),
        listener,
        host,
        speech,
    ));
    let name = environment.keep(state.clone());
    let _ = tell.send(Ok((address, name)));
    environment.spawn(async move { state.accept().await });
}
