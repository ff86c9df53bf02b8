//! One shard's connections: a queue of slices per target and a few workers that each own a
//! connection.
//!
//! A peer that cannot be reached fails its own slices at once for a short while; others are not
//! touched. Every slice ends by its deadline: then its connection is broken, and it reports when
//! the kernel has let go of its memory.

use super::shard_connection::ShardConnection;
use super::terms::Terms;
use crate::error::PeerError;
use crate::limits::{CONNECTIONS_PER_PEER, FRAME_BUDGET_BYTES, IDLE_CONNECTION};
use crate::reply::Reply;
use crate::slice::Slice;
use crate::stats::{Exchanged, RouteCounters, record_unreachable};
use crate::target::Target;
use perigee_port::FrameBudget;
use perigee_schemas::{Direction, Identity};
use perigee_shard::{Environment, Stream, at_most};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A slice for a shard: where it goes and when it must be over.
#[derive(Debug)]
pub struct SliceOrder<S> {
    /// The peer.
    pub target: Arc<Target>,
    /// What moves.
    pub slice: S,
    /// For how long it may.
    pub terms: Terms,
}

/// All peers of one shard.
pub struct PeerQueues<E: Environment, S: Slice> {
    environment: E,
    identity: Identity,
    /// Of frames that have begun to arrive.
    budget: FrameBudget,
    /// Number of the shard.
    lane: u16,
    peers: RefCell<HashMap<usize, Rc<PeerQueue<E, S>>>>,
    known: Cell<usize>,
    stopping: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

struct PeerQueue<E: Environment, S: Slice> {
    /// Counts the peers of the shard.
    number: usize,
    target: Arc<Target>,
    queue: RefCell<VecDeque<SliceOrder<S>>>,
    workers: Cell<usize>,
    /// Workers without work, and how to wake them.
    idle: RefCell<Vec<(usize, Waker)>>,
    /// Slices of workers that connect, and how to wake those; nothing of them is under way.
    connecting: RefCell<BTreeMap<usize, (SliceOrder<S>, Waker)>>,
    /// The connection of each worker and the batch it works for, so that both can be broken off.
    busy: RefCell<BTreeMap<usize, (E::Stream, usize)>>,
    hired: Cell<usize>,
    stopping: Cell<bool>,
}

impl<E: Environment, S: Slice> PeerQueues<E, S> {
    /// No connections yet; `lane` is the number of the shard.
    pub fn new(environment: E, identity: Identity, lane: u16) -> Self {
        Self {
            environment,
            identity,
            budget: FrameBudget::new(FRAME_BUDGET_BYTES),
            lane,
            peers: RefCell::default(),
            known: Cell::new(0),
            stopping: Cell::new(false),
            waiting: RefCell::default(),
        }
    }

    /// Queues slices with their peers.
    pub fn enqueue(self: &Rc<Self>, orders: Vec<SliceOrder<S>>) {
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
            peer.debug_check();
        }
    }

    /// Panics if the records of a peer disagree: for tests and the simulation.
    pub fn check(&self) {
        let peers = self.peers.borrow();
        for (address, peer) in peers.iter() {
            assert_eq!(*address, Arc::as_ptr(&peer.target) as usize);
            assert!(peer.number <= self.known.get(), "it was counted when it came");
            peer.check();
        }
        let mut numbers: Vec<usize> = peers.values().map(|peer| peer.number).collect();
        numbers.sort_unstable();
        assert!(numbers.is_sorted_by(|a, b| a < b), "a number is one peer's");
    }

    /// Breaks off what a canceled batch has under way and drops what it has queued.
    pub fn cancel(&self, batch: usize) {
        for peer in self.in_order() {
            let is_canceled = |order: &SliceOrder<S>| order.slice.batch_state().number == batch;
            let (canceled, kept): (VecDeque<_>, VecDeque<_>) =
                peer.queue.take().into_iter().partition(is_canceled);
            *peer.queue.borrow_mut() = kept;
            let mut connecting = peer.connecting.borrow_mut();
            let waiting = connecting.extract_if(.., |_, (order, _)| is_canceled(order));
            let (taken, connectors): (Vec<_>, Vec<Waker>) =
                waiting.map(|(_, waiting)| waiting).unzip();
            drop(connecting);
            // Their workers connect for no slice now, while others may wait for a worker.
            connectors.into_iter().for_each(Waker::wake);
            let canceled = canceled.into_iter().chain(taken);
            canceled.for_each(|order| order.slice.fail(&PeerError::Canceled));
            let busy = peer.busy.borrow();
            busy.values()
                .filter(|(_, working_for)| *working_for == batch)
                .for_each(|(stream, _)| stream.shutdown());
        }
    }

    /// Breaks every connection; slices in flight fail, queued ones too.
    pub fn stop(&self) {
        self.stopping.set(true);
        for peer in self.in_order() {
            peer.stopping.set(true);
            let queued = peer.queue.take().into_iter();
            let (taken, connectors): (Vec<_>, Vec<Waker>) =
                peer.connecting.take().into_values().unzip();
            connectors.into_iter().for_each(Waker::wake);
            let unsent = queued.chain(taken);
            unsent.for_each(|order| order.slice.fail(&PeerError::Closed));
            peer.busy.borrow().values().for_each(|(stream, _)| stream.shutdown());
            let sleepers = peer.idle.take();
            sleepers.into_iter().for_each(|(_, waker)| waker.wake());
        }
        self.wake_if_ended();
    }

    /// Resolves when [`PeerQueues::stop`] was called and every worker has ended.
    pub async fn ended(&self) {
        poll_fn(|context| {
            if self.has_ended() {
                return Poll::Ready(());
            }
            *self.waiting.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// All peers, in the order they came: the same calls do the same in the same order.
    fn in_order(&self) -> Vec<Rc<PeerQueue<E, S>>> {
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

    fn peer(&self, target: &Arc<Target>) -> Rc<PeerQueue<E, S>> {
        let mut peers = self.peers.borrow_mut();
        let make = || {
            self.known.set(self.known.get() + 1);
            Rc::new(PeerQueue::new(self.known.get(), target.clone()))
        };
        // The target is kept by its entry, so its address names no other one.
        peers.entry(Arc::as_ptr(target) as usize).or_insert_with(make).clone()
    }

    fn hire(self: &Rc<Self>, peer: &Rc<PeerQueue<E, S>>) {
        peer.workers.set(peer.workers.get() + 1);
        let worker = peer.hired.replace(peer.hired.get() + 1);
        let (peers, peer) = (self.clone(), peer.clone());
        self.environment.spawn(async move {
            peers.work(&peer, worker).await;
            peer.busy.borrow_mut().remove(&worker);
            debug_assert!(peer.workers.get() > 0, "this worker was counted");
            peer.workers.set(peer.workers.get() - 1);
            peers.forget_unused(&peer);
            peers.wake_if_ended();
        });
    }

    /// Peers come and go; one without workers leaves nothing behind.
    fn forget_unused(&self, peer: &Rc<PeerQueue<E, S>>) {
        if peer.workers.get() == 0 && peer.queue.borrow().is_empty() {
            self.peers.borrow_mut().remove(&(Arc::as_ptr(&peer.target) as usize));
        }
    }

    async fn work(&self, peer: &PeerQueue<E, S>, worker: usize) {
        let target = peer.target.clone();
        let mut connection = {
            let this_side = (self.identity, self.budget.clone());
            ShardConnection::new(target, this_side, self.lane, worker)
        };
        while let Some(order) = self.next(peer, worker).await {
            connection.sweep();
            if let Some(error) = self.refusal(peer, &order.slice, connection.is_open()) {
                self.fail(order.slice, &error);
                continue;
            }
            let connected = self.connect(peer, worker, &mut connection, order).await;
            let Some((mut order, connected)) = connected else {
                continue;
            };
            let ready = connected.and_then(|reused| order.slice.prepare().map(|()| reused));
            let SliceOrder { slice, terms, .. } = order;
            let outcome = match ready {
                Err(error) => Err(error),
                Ok(reused) => {
                    let connection = (&mut connection, reused);
                    let exchange = self.exchange(peer, worker, connection, &slice, terms);
                    exchange.await
                }
            };
            match outcome {
                Ok((reply, counters)) => {
                    let exchanged = Exchanged { peer: peer.target.name(), counters: &counters };
                    slice.settle(&reply, &exchanged);
                }
                Err(error) => {
                    peer.target.note(&error, self.environment.now());
                    self.fail(slice, &error);
                }
            }
        }
    }

    fn fail(&self, slice: S, error: &PeerError) {
        if let PeerError::Unreachable { peer, .. } = error {
            record_unreachable(&slice, peer, self.lane);
        }
        slice.fail(error);
    }

    /// Why a slice need not be tried. A connection that is open is not worse for one that could not
    /// be made.
    fn refusal(&self, peer: &PeerQueue<E, S>, slice: &S, is_open: bool) -> Option<PeerError> {
        if slice.batch_state().is_canceled {
            return Some(PeerError::Canceled);
        }
        let breaker = peer.target.breaker();
        (!is_open).then(|| breaker.refusal(|| self.environment.now()))?
    }

    /// Sees to an open connection for a slice, which can be taken back until there is one: then
    /// nothing is returned. Whether the connection was used before.
    async fn connect(
        &self,
        peer: &PeerQueue<E, S>,
        worker: usize,
        connection: &mut ShardConnection<E>,
        order: SliceOrder<S>,
    ) -> Option<(SliceOrder<S>, Result<bool, PeerError>)> {
        if connection.is_open() {
            return Some((order, Ok(true)));
        }
        let terms = order.terms;
        let mut waiting = Some(order);
        let mut opening = pin!(connection.open(&self.environment, terms));
        let opened = poll_fn(|context| {
            if !peer.is_connecting(worker, waiting.take(), context.waker()) {
                return Poll::Ready(None);
            }
            opening.as_mut().poll(context).map(Some)
        })
        .await?;
        let (order, _) = peer.connecting.borrow_mut().remove(&worker)?;
        let opened = match opened {
            Err(_) if order.slice.batch_state().is_canceled => Err(PeerError::Canceled),
            opened => opened.map(|()| false),
        };
        Some((order, opened))
    }

    /// One exchange. A connection that was idle may die just now, with a peer that is back: then a
    /// read is made once more. A write is not, for its bytes may arrive late over newer ones.
    async fn exchange(
        &self,
        peer: &PeerQueue<E, S>,
        worker: usize,
        (connection, reused): (&mut ShardConnection<E>, bool),
        slice: &S,
        terms: Terms,
    ) -> Result<(Reply, Arc<RouteCounters>), PeerError> {
        let batch = slice.batch_state().number;
        let begins = |stream: &E::Stream| {
            debug_assert!(!peer.is_idle(worker), "who works does not wait for work");
            peer.busy.borrow_mut().insert(worker, (stream.clone(), batch));
        };
        let ended = || match slice.batch_state().is_canceled {
            true => Some(PeerError::Canceled),
            false => peer.stopping.get().then_some(PeerError::Closed),
        };
        let environment = &self.environment;
        let first = connection.exchange(environment, slice, terms, begins, ended);
        let mut outcome = first.await;
        let broken = matches!(outcome, Err(PeerError::Broken { .. }));
        let reads = slice.header().direction == Direction::Read;
        if broken && reused && reads {
            let second = connection.exchange(environment, slice, terms, begins, ended);
            outcome = second.await;
        }
        peer.busy.borrow_mut().remove(&worker);
        outcome.map_err(|error| ended().unwrap_or(error))
    }

    /// The next slice for a worker, or `None` when it has been idle for long or the shard stops.
    async fn next(&self, peer: &PeerQueue<E, S>, worker: usize) -> Option<SliceOrder<S>> {
        let next = peer.next_order(worker);
        let found = at_most(&self.environment, IDLE_CONNECTION, next).await;
        found.unwrap_or_else(|| peer.retire(worker))
    }
}

impl<E: Environment, S: Slice> PeerQueue<E, S> {
    /// Whether a worker's slice still waits for its connection; `begun` is one whose wait begins.
    fn is_connecting(&self, worker: usize, begun: Option<SliceOrder<S>>, waker: &Waker) -> bool {
        let mut connecting = self.connecting.borrow_mut();
        if let Some(order) = begun {
            connecting.insert(worker, (order, waker.clone()));
            return true;
        }
        let Some((_, known)) = connecting.get_mut(&worker) else {
            return false;
        };
        known.clone_from(waker);
        true
    }

    fn new(number: usize, target: Arc<Target>) -> Self {
        Self {
            number,
            target,
            queue: RefCell::default(),
            workers: Cell::new(0),
            idle: RefCell::default(),
            connecting: RefCell::default(),
            busy: RefCell::default(),
            hired: Cell::new(0),
            stopping: Cell::new(false),
        }
    }

    /// Panics if what is known of the workers disagrees.
    fn check(&self) {
        let (idle, busy) = (self.idle.borrow(), self.busy.borrow());
        let workers = self.workers.get();
        assert!(workers <= self.workers_max(), "workers are bounded");
        assert!(workers <= self.hired.get(), "each worker was hired");
        assert!(idle.len() + busy.len() <= workers, "a worker is idle or busy");
        let is_busy = |(worker, _): &(usize, Waker)| busy.contains_key(worker);
        assert!(!idle.iter().any(is_busy), "a worker is not both");
        let is_served = self.queue.borrow().is_empty() || workers > idle.len();
        assert!(is_served, "no slice waits while all workers sleep");
    }

    /// [`PeerQueue::check`], in builds with debug assertions.
    fn debug_check(&self) {
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    fn is_idle(&self, worker: usize) -> bool {
        self.idle.borrow().iter().any(|(idle, _)| *idle == worker)
    }

    fn workers_max(&self) -> usize {
        CONNECTIONS_PER_PEER.max(self.target.addresses().len())
    }

    /// This worker is not woken any more; it still owns a slice that came at the last moment.
    fn retire(&self, worker: usize) -> Option<SliceOrder<S>> {
        self.idle.borrow_mut().retain(|(idle, _)| *idle != worker);
        self.debug_check();
        self.queue.borrow_mut().pop_front()
    }

    /// The next slice, or `None` when the shard stops.
    async fn next_order(&self, worker: usize) -> Option<SliceOrder<S>> {
        poll_fn(|context| {
            self.idle.borrow_mut().retain(|(idle, _)| *idle != worker);
            if self.stopping.get() {
                return Poll::Ready(None);
            }
            if let Some(order) = self.queue.borrow_mut().pop_front() {
                return Poll::Ready(Some(order));
            }
            self.idle.borrow_mut().push((worker, context.waker().clone()));
            Poll::Pending
        })
        .await
    }
}
