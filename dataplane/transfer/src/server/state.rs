//! One shard of a server: its listener and its connections.

use super::connection::serve_connection;
use crate::limits::SERVER_CONNECTIONS_MAX;
use crate::rails::Rails;
use crate::segments::SegmentTable;
use perigee_schemas::Identity;
use perigee_shard::{ACCEPT_PAUSE, Admission, Admitted, Environment, Listener, Stream};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Pause between looks at draining connections.
const PAUSE: Duration = Duration::from_millis(5);

/// What all connections of a server serve.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    pub(crate) table: Arc<SegmentTable>,
    pub(crate) identity: Identity,
    pub(crate) rails: Option<Arc<Rails>>,
}

pub(crate) struct ServerState<E: Environment> {
    environment: E,
    listener: Rc<E::Listener>,
    ground: Ground,
    connections: RefCell<BTreeMap<u64, E::Stream>>,
    admission: Admission,
    next: Cell<u64>,
    stopping: Cell<bool>,
}

impl<E: Environment> ServerState<E> {
    pub(crate) fn new(environment: E, listener: Rc<E::Listener>, ground: Ground) -> Self {
        Self {
            environment,
            listener,
            ground,
            connections: RefCell::default(),
            admission: Admission::new(SERVER_CONNECTIONS_MAX),
            next: Cell::new(0),
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
    }

    /// Breaks the listener and every connection.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.listener.close();
        self.connections
            .borrow()
            .values()
            .for_each(Stream::shutdown);
    }

    /// Resolves when the last connection has ended.
    pub(crate) async fn drained(&self) {
        while !self.connections.borrow().is_empty() {
            self.environment.sleep(PAUSE).await;
        }
    }

    /// A peer whose connection was broken comes again at once: none is taken in once it stops.
    fn admit(&self, stream: &E::Stream) -> Option<Admitted> {
        if self.stopping.get() {
            return None;
        }
        let (open, now) = (self.connections.borrow().len(), self.environment.now());
        self.admission.admit(stream, open, now)
    }

    fn adopt(self: &Rc<Self>, stream: E::Stream, admitted: Admitted) {
        let number = self.next.replace(self.next.get() + 1);
        self.connections.borrow_mut().insert(number, stream.clone());
        let state = self.clone();
        self.environment.spawn(async move {
            if let Err(error) = serve_connection(&state.environment, &stream, &state.ground).await {
                tracing::debug!(%error, "A data connection ended");
            }
            stream.shutdown();
            state.connections.borrow_mut().remove(&number);
            drop(admitted);
        });
    }
}
