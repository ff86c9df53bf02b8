//! The accept loop and the life of a port.
//! Invariant: once a port is stopped nothing more is served on it, and [`Port::serve`] returns
//! after the last connection.

use crate::connection::{Connection, peer_address};
use crate::limits::{EVICTION_DEADLINE, SWEEP_PAUSE};
use crate::table::ConnectionTable;
use perigee_shard::{
    ACCEPT_PAUSE, Admission, Admitted, Environment, Listener, SocketError, Stream, at_most,
};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// What a port is for.
pub trait Service<E: Environment>: Sized + 'static {
    /// What is kept for each connection.
    type State: 'static;

    /// A connection was taken: what is kept for it.
    fn enter(&self, stream: &E::Stream) -> Self::State;

    /// Serves a connection until the peer leaves, misbehaves or is cut off. The stream is broken
    /// afterwards.
    fn serve(
        &self,
        connection: &Connection<E, Self::State>,
    ) -> impl Future<Output = io::Result<()>>;

    /// A served connection has ended.
    fn leave(&self, _connection: &Connection<E, Self::State>) {}

    /// A connection was closed at once for want of room.
    fn turn_away(&self) {}
}

/// Bounds of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// Connections served at once, on this shard.
    pub connections_max: usize,
    /// How long a connection may be silent; `None` is forever.
    pub idle: Option<Duration>,
    /// How long a connection may be silent whose peer has not shown to be a member; `None` is
    /// forever.
    pub stranger_idle: Option<Duration>,
}

/// A listener on one shard and the connections it has accepted.
pub struct Port<E: Environment, S: Service<E>> {
    environment: E,
    listener: E::Listener,
    address: SocketAddr,
    options: PortOptions,
    admission: Admission,
    table: ConnectionTable<E, S::State>,
    service: S,
    stopping: Cell<bool>,
}

impl PortOptions {
    /// A bound on connections, which may be silent forever.
    pub fn new(connections_max: usize) -> Self {
        Self { connections_max, idle: None, stranger_idle: None }
    }

    fn has_idle_bound(&self) -> bool {
        self.idle.is_some() || self.stranger_idle.is_some()
    }
}

impl<E: Environment, S: Service<E>> Port<E, S> {
    /// Listens; port 0 chooses one, and `shared` lets several shards listen on it. Nothing is
    /// accepted before [`Port::serve`].
    ///
    /// # Errors
    /// The port is taken or the address is not of this host.
    pub fn listen(
        environment: &E,
        (address, shared): (SocketAddr, bool),
        options: PortOptions,
        service: S,
    ) -> Result<Rc<Self>, SocketError> {
        let listener = environment.listen(address, shared)?;
        Ok(Rc::new(Self {
            environment: environment.clone(),
            address: listener.local_address().unwrap_or(address),
            listener,
            options,
            admission: Admission::new(options.connections_max),
            table: ConnectionTable::new(),
            service,
            stopping: Cell::new(false),
        }))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What serves its connections.
    pub fn service(&self) -> &S {
        &self.service
    }

    /// Open connections.
    pub fn connection_count(&self) -> usize {
        self.table.count()
    }

    /// Looks at every open connection.
    pub fn for_each(&self, look: impl FnMut(&Connection<E, S::State>)) {
        self.table.for_each(look);
    }

    /// Accepts until [`Port::stop`], then returns when the last connection has ended.
    pub async fn serve(self: &Rc<Self>) {
        if self.options.has_idle_bound() {
            let port = self.clone();
            self.environment.spawn(async move { port.sweep().await });
        }
        self.accept().await;
        self.table.emptied().await;
    }

    /// Breaks the listener and every connection.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.listener.close();
        self.table.for_each(|connection| connection.stream().shutdown());
    }

    async fn accept(self: &Rc<Self>) {
        while !self.stopping.get() {
            match self.listener.accept().await {
                Ok(stream) => match self.admit(&stream).await {
                    Some(admitted) => self.adopt(stream, admitted),
                    None => {
                        self.service.turn_away();
                        stream.shutdown();
                    }
                },
                Err(error) if !self.stopping.get() => {
                    self.admission.failed(&error, self.environment.now());
                    self.environment.sleep(ACCEPT_PAUSE).await;
                }
                Err(_) => {}
            }
        }
    }

    /// The right to keep a new connection, for which another one goes if it must. A peer whose
    /// connection was broken by [`Port::stop`] comes again at once: none is taken then.
    async fn admit(&self, stream: &E::Stream) -> Option<Admitted> {
        let admit = || {
            let (open, now) = (self.table.count(), self.environment.now());
            let is_open = !self.stopping.get();
            is_open.then(|| self.admission.admit(stream, open, now)).flatten()
        };
        if let Some(admitted) = admit() {
            return Some(admitted);
        }
        let number = self.table.give_one_up(peer_address(stream))?;
        at_most(&self.environment, EVICTION_DEADLINE, self.table.left(number)).await?;
        admit()
    }

    fn adopt(self: &Rc<Self>, stream: E::Stream, admitted: Admitted) {
        let state = self.service.enter(&stream);
        let connection = Rc::new(Connection::new(&self.environment, stream, state));
        let number = self.table.enter(connection.clone());
        let port = self.clone();
        self.environment.spawn(async move {
            if let Err(error) = port.service.serve(&connection).await {
                tracing::debug!(%error, "A connection ended");
            }
            connection.stream().shutdown();
            port.service.leave(&connection);
            // The right to a descriptor is given back when the descriptor is.
            drop(connection);
            port.table.leave(number);
            drop(admitted);
        });
    }

    /// Breaks connections that were silent for too long, until the port stops.
    async fn sweep(&self) {
        while !self.stopping.get() {
            self.environment.sleep(SWEEP_PAUSE).await;
            let now = self.environment.now();
            self.table.for_each(|connection| {
                let bound = match connection.is_known() {
                    true => self.options.idle,
                    false => {
                        [self.options.idle, self.options.stranger_idle].into_iter().flatten().min()
                    }
                };
                let silent = now.saturating_sub(connection.heard());
                if bound.is_some_and(|bound| silent > bound) {
                    connection.stream().shutdown();
                }
            });
        }
    }
}
