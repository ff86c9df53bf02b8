//! One shard of a server: its listener, its connections, and which buffers each of them uses.

use super::{Host, Speech, connection, upstream};
use crate::counters::Counters;
use crate::limits::SERVER_CONNECTIONS_MAX;
use crate::registry::Region;
use perigee_shard::{ACCEPT_PAUSE, Admission, Admitted, Environment, Listener, Stream};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Pause between looks at draining connections.
const PAUSE: Duration = Duration::from_millis(5);

/// The server's part on one shard.
pub(crate) struct ServerState<E: Environment> {
    environment: E,
    listener: Rc<E::Listener>,
    host: Arc<Host>,
    speech: Speech,
    connections: RefCell<BTreeMap<u64, Rc<Seat<E::Stream>>>>,
    admission: Admission,
    next: Cell<u64>,
    accepting: Cell<bool>,
    stopping: Cell<bool>,
}

/// One connection and the buffers that its present request uses.
pub(super) struct Seat<S> {
    pub(super) stream: S,
    /// Counts of the NIC that it came through.
    pub(super) counters: Arc<Counters>,
    regions: RefCell<Vec<Arc<Region>>>,
}

impl<S: Stream> Seat<S> {
    /// From now on these buffers are in use, and no others.
    pub(super) fn uses<'a>(&self, regions: impl Iterator<Item = &'a Arc<Region>>) {
        let mut used = self.regions.borrow_mut();
        used.clear();
        for region in regions {
            if !used.last().is_some_and(|last| Arc::ptr_eq(last, region)) {
                used.push(region.clone());
            }
        }
    }
}

impl<E: Environment> ServerState<E> {
    pub(crate) fn new(
        environment: E,
        listener: Rc<E::Listener>,
        host: Arc<Host>,
        speech: Speech,
    ) -> Self {
        Self {
            environment,
            listener,
            host,
            speech,
            connections: RefCell::default(),
            admission: Admission::new(SERVER_CONNECTIONS_MAX),
            next: Cell::new(0),
            accepting: Cell::new(true),
            stopping: Cell::new(false),
        }
    }

    /// Accepts until [`ServerState::stop`].
    pub(crate) async fn accept(self: &Rc<Self>) {
        while !self.stopping.get() {
            match self.listener.accept().await {
                Ok(stream) => match self.admit(&stream) {
                    Some(admitted) => self.adopt(stream, admitted),
                    None => stream.shutdown(),
                },
                Err(error) if !self.stopping.get() => {
                    self.admission.failed(&error, self.environment.now());
                    self.environment.sleep(ACCEPT_PAUSE).await;
                }
                Err(_) => {}
            }
        }
        self.accepting.set(false);
    }

    /// Breaks the connections whose present request uses a buffer.
    pub(crate) fn revoke(&self, region: &Arc<Region>) {
        for seat in self.connections.borrow().values() {
            if seat
                .regions
                .borrow()
                .iter()
                .any(|used| Arc::ptr_eq(used, region))
            {
                seat.stream.shutdown();
            }
        }
    }

    /// Breaks the listener and every connection.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.listener.close();
        self.connections
            .borrow()
            .values()
            .for_each(|seat| seat.stream.shutdown());
    }

    /// Resolves when the last connection has ended.
    pub(crate) async fn drained(&self) {
        while self.accepting.get() || !self.connections.borrow().is_empty() {
            self.environment.sleep(PAUSE).await;
        }
    }

    fn admit(&self, stream: &E::Stream) -> Option<Admitted> {
        if self.stopping.get() {
            return None;
        }
        let (open, now) = (self.connections.borrow().len(), self.environment.now());
        self.admission.admit(stream, open, now)
    }

    fn adopt(self: &Rc<Self>, stream: E::Stream, admitted: Admitted) {
        let number = self.next.replace(self.next.get() + 1);
        let counters = self.host.ledger.arriving_over(stream.socket());
        let seat = Rc::new(Seat {
            stream,
            counters,
            regions: RefCell::default(),
        });
        self.connections.borrow_mut().insert(number, seat.clone());
        let state = self.clone();
        self.environment.spawn(async move {
            let (environment, host) = (&state.environment, &*state.host);
            let served = match state.speech {
                Speech::Own => connection::serve_connection(environment, &seat, host).await,
                Speech::Upstream => upstream::serve_connection(environment, &seat, host).await,
            };
            if let Err(error) = served {
                tracing::debug!(%error, "A data connection ended");
            }
            seat.stream.shutdown();
            state.connections.borrow_mut().remove(&number);
            drop(admitted);
        });
    }
}
