//! One shard's connections: a queue of slices per peer and a few workers that each own a connection.
//!
//! A peer that cannot be reached fails its own slices at once for a short while; others are not touched.

use super::exchange::{read_slice, write_slice};
use super::slice::Slice;
use crate::activity::{Moved, record_unreachable};
use crate::error::TransferError;
use crate::greeting::greet;
use crate::limits::{CONNECTIONS_PER_PEER, IDLE_CONNECTION, PEER_BREAKER_OPEN, SLOWEST_PER_BYTE};
use crate::wire::Direction;
use perigee_activity::{Link, LinkRole};
use perigee_schemas::{Identity, Status};
use perigee_shard::{Environment, Stream, at_most, within};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// All peers of one shard.
pub(crate) struct Peers<E: Environment> {
    environment: E,
    /// Number of the shard.
    lane: u16,
    identity: Identity,
    deadline: Duration,
    peers: RefCell<BTreeMap<Arc<str>, Rc<Peer<E>>>>,
    stopping: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

struct Peer<E: Environment> {
    endpoint: Arc<str>,
    /// Where new connections go: a name may be given to another host.
    address: Cell<SocketAddr>,
    queue: RefCell<VecDeque<Queued>>,
    workers: Cell<usize>,
    /// Workers without work, and how to wake them.
    idle: RefCell<Vec<(usize, Waker)>>,
    /// The connection of each worker, so that a stop can break it.
    streams: RefCell<BTreeMap<usize, E::Stream>>,
    hired: Cell<usize>,
    broken_until: Cell<Duration>,
    stopping: Cell<bool>,
}

/// A slice and where its peer is.
pub(crate) struct Addressed {
    pub(crate) slice: Slice,
    pub(crate) address: SocketAddr,
}

/// A greeted connection, and how it does.
struct Connection<S> {
    stream: S,
    link: Link,
}

/// A slice and when it must have come to a connection.
struct Queued {
    slice: Slice,
    submitted: Duration,
    due: Duration,
}

impl<E: Environment> Peers<E> {
    pub(crate) fn new(environment: E, lane: u16, identity: Identity, deadline: Duration) -> Self {
        Self {
            environment,
            lane,
            identity,
            deadline,
            peers: RefCell::default(),
            stopping: Cell::new(false),
            waiting: RefCell::default(),
        }
    }

    /// Queues slices with their peers. Their time runs since they were submitted and grows with the bytes of the batch, so
    /// that a large batch on a slow network is not cut short.
    pub(crate) fn enqueue(self: &Rc<Self>, slices: Vec<Addressed>, submitted: Duration) {
        let parts = slices.iter().flat_map(|slice| &slice.slice.parts);
        let bytes: u64 = parts.map(|part| part.bytes).sum();
        let due = submitted + self.deadline + SLOWEST_PER_BYTE.saturating_mul(clamped(bytes));
        for Addressed { slice, address } in slices {
            if self.stopping.get() {
                return;
            }
            let peer = self.peer(&slice.endpoint, address);
            peer.address.set(address);
            let queued = Queued {
                slice,
                submitted,
                due,
            };
            peer.queue.borrow_mut().push_back(queued);
            let sleeper = peer.idle.borrow_mut().pop();
            match sleeper {
                Some((_, waker)) => waker.wake(),
                None if peer.workers.get() < CONNECTIONS_PER_PEER => self.hire(&peer),
                None => {}
            }
        }
    }

    /// Breaks every connection; slices in flight fail, queued ones too.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        for peer in self.peers.borrow().values() {
            peer.stopping.set(true);
            peer.queue.borrow_mut().clear();
            peer.streams.borrow().values().for_each(Stream::shutdown);
            let sleepers = std::mem::take(&mut *peer.idle.borrow_mut());
            sleepers.into_iter().for_each(|(_, waker)| waker.wake());
        }
        self.wake_if_ended();
    }

    /// Resolves when [`Peers::stop`] was called and every worker has ended.
    pub(crate) async fn ended(&self) {
        poll_fn(|context| {
            if self.has_ended() {
                return Poll::Ready(());
            }
            *self.waiting.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn has_ended(&self) -> bool {
        self.stopping.get()
            && self
                .peers
                .borrow()
                .values()
                .all(|peer| peer.workers.get() == 0)
    }

    fn wake_if_ended(&self) {
        if self.has_ended()
            && let Some(waker) = self.waiting.borrow_mut().take()
        {
            waker.wake();
        }
    }

    fn peer(&self, endpoint: &Arc<str>, address: SocketAddr) -> Rc<Peer<E>> {
        let mut peers = self.peers.borrow_mut();
        let make = || {
            Rc::new(Peer {
                endpoint: endpoint.clone(),
                address: Cell::new(address),
                queue: RefCell::default(),
                workers: Cell::new(0),
                idle: RefCell::default(),
                streams: RefCell::default(),
                hired: Cell::new(0),
                broken_until: Cell::new(Duration::ZERO),
                stopping: Cell::new(false),
            })
        };
        peers.entry(endpoint.clone()).or_insert_with(make).clone()
    }

    fn hire(self: &Rc<Self>, peer: &Rc<Peer<E>>) {
        peer.workers.set(peer.workers.get() + 1);
        let worker = peer.hired.replace(peer.hired.get() + 1);
        let (peers, peer) = (self.clone(), peer.clone());
        self.environment.spawn(async move {
            peers.work(&peer, worker).await;
            peer.streams.borrow_mut().remove(&worker);
            peer.workers.set(peer.workers.get() - 1);
            peers.forget_unused(&peer);
            peers.wake_if_ended();
        });
    }

    /// Peers come and go; one that nobody works for leaves nothing behind.
    fn forget_unused(&self, peer: &Rc<Peer<E>>) {
        if peer.workers.get() == 0 && peer.queue.borrow().is_empty() {
            self.peers.borrow_mut().remove(&peer.endpoint);
        }
    }

    async fn work(&self, peer: &Peer<E>, worker: usize) {
        let mut open: Option<Connection<E::Stream>> = None;
        while let Some(queued) = self.next(peer, worker).await {
            let due = queued.due;
            if self.environment.now() >= due {
                queued.slice.fail(&self.late(peer));
                continue;
            }
            let reused = open.is_some();
            let connection = match open.take() {
                Some(connection) => Ok(connection),
                None => self.connect(peer, worker).await,
            };
            let mut outcome = match connection {
                Ok(connection) => self.exchange(connection, &queued).await,
                Err(error) => Err(error),
            };
            let in_time = self.environment.now() < due && !self.stopping.get();
            if reused && in_time && outcome.as_ref().is_err_and(is_broken) {
                // An idle connection may have died with a peer that is back: every slice can be sent twice.
                outcome = match self.connect(peer, worker).await {
                    Ok(connection) => self.exchange(connection, &queued).await,
                    Err(error) => Err(error),
                };
            }
            match outcome {
                Ok((connection, verdicts)) => {
                    open = Some(connection);
                    queued.slice.finish(verdicts);
                }
                Err(error) => {
                    peer.streams.borrow_mut().remove(&worker);
                    if matches!(error, TransferError::Deadline { .. }) {
                        peer.trip(self.environment.now());
                    }
                    if matches!(error, TransferError::Unreachable { .. }) {
                        record_unreachable(direction(&queued.slice), self.lane);
                    }
                    queued.slice.fail(&error);
                }
            }
        }
    }

    /// The next slice for a worker, or `None` when it has been idle for long or the shard stops.
    async fn next(&self, peer: &Peer<E>, worker: usize) -> Option<Queued> {
        let next = peer.next_slice(worker);
        let found = at_most(&self.environment, IDLE_CONNECTION, next).await;
        found.unwrap_or_else(|| peer.retire(worker))
    }

    fn late(&self, peer: &Peer<E>) -> TransferError {
        TransferError::Deadline {
            peer: peer.endpoint.to_string(),
            deadline: self.deadline,
        }
    }

    async fn connect(
        &self,
        peer: &Peer<E>,
        worker: usize,
    ) -> Result<Connection<E::Stream>, TransferError> {
        let unreachable = |reason: String| TransferError::Unreachable {
            peer: peer.endpoint.to_string(),
            reason,
        };
        if self.environment.now() < peer.broken_until.get() {
            return Err(unreachable(
                "it could not be reached a moment ago".to_owned(),
            ));
        }
        let connected = greet(&self.environment, peer.address.get(), self.identity).await;
        match connected {
            Ok(stream) => {
                peer.streams.borrow_mut().insert(worker, stream.clone());
                let link = Link::of(stream.socket(), LinkRole::Asks);
                Ok(Connection { stream, link })
            }
            Err(error) => {
                peer.trip(self.environment.now());
                Err(unreachable(error.to_string()))
            }
        }
    }

    /// One request and reply, over within a transfer deadline from `due` at the latest. On success the connection can be
    /// used again.
    async fn exchange(
        &self,
        connection: Connection<E::Stream>,
        queued: &Queued,
    ) -> Result<(Connection<E::Stream>, Vec<Result<u32, Status>>), TransferError> {
        let (slice, stream) = (&queued.slice, &connection.stream);
        let begun = self.environment.now();
        let talk = async {
            match slice.direction {
                Direction::Write => write_slice(stream, slice).await,
                _ => read_slice(stream, slice).await,
            }
        };
        let left = (queued.due + self.deadline).saturating_sub(begun);
        let length = left.min(self.deadline);
        let outcome = within(&self.environment, length, stream, talk).await;
        self.count(&connection, queued, begun, outcome.is_ok());
        outcome
            .map(|verdicts| (connection, verdicts))
            .map_err(|error| {
                let peer = slice.endpoint.to_string();
                match error.kind() {
                    _ if error.raw_os_error() == Some(nix::libc::EFAULT) => {
                        TransferError::LocalMemory
                    }
                    io::ErrorKind::TimedOut => TransferError::Deadline {
                        peer,
                        deadline: self.deadline,
                    },
                    _ => TransferError::Broken {
                        peer,
                        reason: error.to_string(),
                    },
                }
            })
    }

    fn count(
        &self,
        connection: &Connection<E::Stream>,
        queued: &Queued,
        begun: Duration,
        went_well: bool,
    ) {
        let slice = &queued.slice;
        let moved = Moved {
            device: connection.link.device(),
            peer: &slice.endpoint,
            direction: direction(slice),
            lane: self.lane,
            operations: slice.parts.len() as u64,
            bytes: slice.parts.iter().map(|part| part.bytes).sum(),
            queued: begun.saturating_sub(queued.submitted),
            on_wire: self.environment.now().saturating_sub(begun),
        };
        if went_well {
            moved.record(Some(&connection.link));
            connection.link.look(connection.stream.socket());
        } else {
            moved.record_failure();
        }
    }
}

impl<E: Environment> Peer<E> {
    /// For a short while no connection is tried.
    fn trip(&self, now: Duration) {
        self.broken_until.set(now + PEER_BREAKER_OPEN);
    }

    /// Nobody wakes this worker any more; a slice that came at the last moment is still its own.
    fn retire(&self, worker: usize) -> Option<Queued> {
        self.idle.borrow_mut().retain(|(idle, _)| *idle != worker);
        self.queue.borrow_mut().pop_front()
    }

    /// The next slice, or `None` when the shard stops.
    async fn next_slice(&self, worker: usize) -> Option<Queued> {
        poll_fn(|context| {
            self.idle.borrow_mut().retain(|(idle, _)| *idle != worker);
            if self.stopping.get() {
                return Poll::Ready(None);
            }
            if let Some(queued) = self.queue.borrow_mut().pop_front() {
                return Poll::Ready(Some(queued));
            }
            let sleeper = (worker, context.waker().clone());
            self.idle.borrow_mut().push(sleeper);
            Poll::Pending
        })
        .await
    }
}

fn direction(slice: &Slice) -> perigee_activity::Direction {
    match slice.direction {
        Direction::Write => perigee_activity::Direction::Write,
        _ => perigee_activity::Direction::Read,
    }
}

/// A number of bytes that a duration can be multiplied with.
fn clamped(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn is_broken(error: &TransferError) -> bool {
    matches!(error, TransferError::Broken { .. })
}
