//! One shard's connections: a queue of slices per target and a few workers that each own a connection.
//!
//! A peer that cannot be reached fails its own slices at once for a short while; others are not touched. Every slice ends
//! by its deadline: then its connection is broken, and it reports when the kernel has let go of its memory.

use super::link::Link;
use crate::counters::Counters;
use crate::error::EngineError;
use crate::limits::{CONNECTIONS_PER_PEER, IDLE_CONNECTION, PEER_BREAKER_OPEN};
use crate::slice::Slice;
use crate::target::Target;
use crate::wire::Reply;
use perigee_schemas::Identity;
use perigee_shard::{Environment, Stream, at_most};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// A slice for a shard: where it goes and when it must be over.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) target: Arc<Target>,
    pub(crate) slice: Slice,
    pub(crate) terms: Terms,
}

/// What holds for all slices of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// When it must be over, on the process's monotonic clock.
    pub(crate) due: Duration,
    /// The time it has in all, for messages.
    pub(crate) length: Duration,
    pub(crate) with_checksum: bool,
}

/// All peers of one shard.
pub(crate) struct Peers<E: Environment> {
    environment: E,
    identity: Identity,
    peers: RefCell<HashMap<usize, Rc<Peer<E>>>>,
    known: Cell<usize>,
    stopping: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

struct Peer<E: Environment> {
    /// Counts the peers of the shard.
    number: usize,
    target: Arc<Target>,
    queue: RefCell<VecDeque<Order>>,
    workers: Cell<usize>,
    /// Workers without work, and how to wake them.
    idle: RefCell<Vec<(usize, Waker)>>,
    /// The connection of each worker and the batch it works for, so that both can be broken off.
    busy: RefCell<BTreeMap<usize, (E::Stream, usize)>>,
    hired: Cell<usize>,
    broken: RefCell<Option<(Duration, EngineError)>>,
    stopping: Cell<bool>,
}

impl<E: Environment> Peers<E> {
    pub(crate) fn new(environment: E, identity: Identity) -> Self {
        Self {
            environment,
            identity,
            peers: RefCell::default(),
            known: Cell::new(0),
            stopping: Cell::new(false),
            waiting: RefCell::default(),
        }
    }

    /// Queues slices with their peers.
    pub(crate) fn enqueue(self: &Rc<Self>, orders: Vec<Order>) {
        for order in orders {
            if self.stopping.get() {
                return;
            }
            let peer = self.peer(&order.target);
            peer.queue.borrow_mut().push_back(order);
            let sleeper = peer.idle.borrow_mut().pop();
            match sleeper {
                Some((_, waker)) => waker.wake(),
                None if peer.workers.get() < peer.workers_max() => self.hire(&peer),
                None => {}
            }
        }
    }

    /// Breaks off what a canceled batch has under way and drops what it has queued.
    pub(crate) fn cancel(&self, batch: usize) {
        for peer in self.in_order() {
            let is_canceled = |order: &Order| Arc::as_ptr(order.slice.batch()) as usize == batch;
            let (canceled, kept): (VecDeque<_>, VecDeque<_>) =
                peer.queue.take().into_iter().partition(is_canceled);
            *peer.queue.borrow_mut() = kept;
            canceled
                .into_iter()
                .for_each(|order| order.slice.fail(&EngineError::Canceled));
            let busy = peer.busy.borrow();
            busy.values()
                .filter(|(_, working_for)| *working_for == batch)
                .for_each(|(stream, _)| stream.shutdown());
        }
    }

    /// Breaks every connection; slices in flight fail, queued ones too.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        for peer in self.in_order() {
            peer.stopping.set(true);
            peer.queue
                .take()
                .into_iter()
                .for_each(|order| order.slice.fail(&EngineError::Closed));
            peer.busy
                .borrow()
                .values()
                .for_each(|(stream, _)| stream.shutdown());
            let sleepers = peer.idle.take();
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

    /// All peers, first come first: the same calls do the same in the same order.
    fn in_order(&self) -> Vec<Rc<Peer<E>>> {
        let mut peers: Vec<_> = self.peers.borrow().values().cloned().collect();
        peers.sort_by_key(|peer| peer.number);
        peers
    }

    fn has_ended(&self) -> bool {
        let peers = self.peers.borrow();
        self.stopping.get() && peers.values().all(|peer| peer.workers.get() == 0)
    }

    fn wake_if_ended(&self) {
        if self.has_ended()
            && let Some(waker) = self.waiting.take()
        {
            waker.wake();
        }
    }

    fn peer(&self, target: &Arc<Target>) -> Rc<Peer<E>> {
        let mut peers = self.peers.borrow_mut();
        let make = || {
            self.known.set(self.known.get() + 1);
            Rc::new(Peer::new(self.known.get(), target.clone()))
        };
        // The target is kept by its entry, so its address names nobody else meanwhile.
        peers
            .entry(Arc::as_ptr(target) as usize)
            .or_insert_with(make)
            .clone()
    }

    fn hire(self: &Rc<Self>, peer: &Rc<Peer<E>>) {
        peer.workers.set(peer.workers.get() + 1);
        let worker = peer.hired.replace(peer.hired.get() + 1);
        let (peers, peer) = (self.clone(), peer.clone());
        self.environment.spawn(async move {
            peers.work(&peer, worker).await;
            peer.busy.borrow_mut().remove(&worker);
            peer.workers.set(peer.workers.get() - 1);
            peers.forget_unused(&peer);
            peers.wake_if_ended();
        });
    }

    /// Peers come and go; one that nobody works for leaves nothing behind.
    fn forget_unused(&self, peer: &Rc<Peer<E>>) {
        if peer.workers.get() == 0 && peer.queue.borrow().is_empty() {
            self.peers
                .borrow_mut()
                .remove(&(Arc::as_ptr(&peer.target) as usize));
        }
    }

    async fn work(&self, peer: &Peer<E>, worker: usize) {
        let mut link = Link::new(peer.target.clone(), self.identity, worker);
        while let Some(order) = self.next(peer, worker).await {
            let Order {
                mut slice, terms, ..
            } = order;
            let refusal = self.refusal(peer, &slice);
            let outcome = match refusal.map_or_else(|| slice.embark(), Err) {
                Err(error) => Err(error),
                Ok(()) => self.exchange(peer, worker, &mut link, &slice, terms).await,
            };
            match outcome {
                Ok((reply, counters)) => {
                    if let Some(slice) = slice.settle(&peer.target.name, &reply, &counters) {
                        let target = peer.target.clone();
                        peer.queue.borrow_mut().push_front(Order {
                            target,
                            slice,
                            terms,
                        });
                    }
                }
                Err(error) => {
                    peer.note(&error, self.environment.now());
                    slice.fail(&error);
                }
            }
        }
    }

    /// Why a slice need not be tried.
    fn refusal(&self, peer: &Peer<E>, slice: &Slice) -> Option<EngineError> {
        if slice.batch().is_canceled() {
            return Some(EngineError::Canceled);
        }
        let broken = peer.broken.borrow();
        let (until, error) = broken.as_ref()?;
        (self.environment.now() < *until).then(|| error.clone())
    }

    /// One exchange. An idle connection may have died with a peer that is back: then it is made once more, for every slice
    /// can be moved twice.
    async fn exchange(
        &self,
        peer: &Peer<E>,
        worker: usize,
        link: &mut Link<E>,
        slice: &Slice,
        terms: Terms,
    ) -> Result<(Reply, Arc<Counters>), EngineError> {
        let batch = Arc::as_ptr(slice.batch()) as usize;
        let seat = |stream: &E::Stream| {
            peer.busy
                .borrow_mut()
                .insert(worker, (stream.clone(), batch));
            !peer.stopping.get() && !slice.batch().is_canceled()
        };
        let reused = link.is_open();
        let mut outcome = link.exchange(&self.environment, slice, terms, seat).await;
        let broken = matches!(outcome, Err(EngineError::Broken { .. }));
        let wanted = !peer.stopping.get() && !slice.batch().is_canceled();
        if broken && reused && wanted {
            outcome = link.exchange(&self.environment, slice, terms, seat).await;
        }
        peer.busy.borrow_mut().remove(&worker);
        match outcome {
            Err(_) if slice.batch().is_canceled() => Err(EngineError::Canceled),
            Err(_) if peer.stopping.get() => Err(EngineError::Closed),
            outcome => outcome,
        }
    }

    /// The next slice for a worker, or `None` when it has been idle for long or the shard stops.
    async fn next(&self, peer: &Peer<E>, worker: usize) -> Option<Order> {
        let next = peer.next_order(worker);
        let found = at_most(&self.environment, IDLE_CONNECTION, next).await;
        found.unwrap_or_else(|| peer.retire(worker))
    }
}

impl<E: Environment> Peer<E> {
    fn new(number: usize, target: Arc<Target>) -> Self {
        Self {
            number,
            target,
            queue: RefCell::default(),
            workers: Cell::new(0),
            idle: RefCell::default(),
            busy: RefCell::default(),
            hired: Cell::new(0),
            broken: RefCell::default(),
            stopping: Cell::new(false),
        }
    }

    fn workers_max(&self) -> usize {
        CONNECTIONS_PER_PEER.max(self.target.ways.len())
    }

    /// A peer that cannot be reached or is silent is left alone for a short while.
    fn note(&self, error: &EngineError, now: Duration) {
        let lasting = matches!(
            error,
            EngineError::Unreachable { .. }
                | EngineError::Restarted { .. }
                | EngineError::Deadline { .. }
        );
        if lasting {
            *self.broken.borrow_mut() = Some((now + PEER_BREAKER_OPEN, error.clone()));
        }
    }

    /// Nobody wakes this worker any more; a slice that came at the last moment is still its own.
    fn retire(&self, worker: usize) -> Option<Order> {
        self.idle.borrow_mut().retain(|(idle, _)| *idle != worker);
        self.queue.borrow_mut().pop_front()
    }

    /// The next slice, or `None` when the shard stops.
    async fn next_order(&self, worker: usize) -> Option<Order> {
        poll_fn(|context| {
            self.idle.borrow_mut().retain(|(idle, _)| *idle != worker);
            if self.stopping.get() {
                return Poll::Ready(None);
            }
            if let Some(order) = self.queue.borrow_mut().pop_front() {
                return Poll::Ready(Some(order));
            }
            self.idle
                .borrow_mut()
                .push((worker, context.waker().clone()));
            Poll::Pending
        })
        .await
    }
}
