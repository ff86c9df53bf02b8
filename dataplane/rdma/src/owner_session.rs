//! Talks with the owners of segments about rails: one connection to each, on a shard of its own.
//! Invariant: while a talk lasts its lease is renewed in time; when it ends, the peer's rails are left.

use super::links::Links;
use super::wire as rail_wire;
use super::wire::RailsRequest;
use crate::limits::{
    RAIL_ANSWER, RAIL_ANSWER_PAUSE, RAIL_BODY_BYTES_MAX, RAIL_BUDGET_BYTES, RAIL_IDLE,
    RAIL_ORDERS_MAX, RAIL_RENEWAL,
};
use perigee_mover::CONNECT_DEADLINE;
use perigee_port::{FrameBudget, Frames};
use perigee_rails::{EndpointAnswer, EndpointOffer, ExchangeDone, PeerHandle};
use perigee_schemas::Identity;
use perigee_schemas::frame::Kind;
use perigee_schemas::session::{Hello, Role, decode_failure};
use perigee_shard::{Environment, Stream, at_most, monotonic, within};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Poll, Waker};

/// What a talk is to do.
pub(crate) enum Order {
    /// Learn what the owner has.
    Ask,
    /// Take an offer of queue pairs there.
    Offer(EndpointOffer, ExchangeDone),
    /// Have our queue pairs there taken down, and say when that is done. Dropped if it is not.
    Fence(Sender<()>),
}

/// All talks of a shard.
pub(crate) struct Talks<E: Environment> {
    environment: E,
    identity: Identity,
    /// Of answers that have begun to arrive.
    budget: FrameBudget,
    links: Arc<Links>,
    talks: RefCell<HashMap<Arc<str>, Rc<Talk<E>>>>,
    stopping: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

struct Talk<E: Environment> {
    endpoint: Arc<str>,
    orders: RefCell<VecDeque<Order>>,
    sleeper: RefCell<Option<Waker>>,
    /// The connection, but while an exchange has it.
    frames: RefCell<Option<Frames<E>>>,
    /// Its stream, to break it off.
    stream: RefCell<Option<E::Stream>>,
    peer: RefCell<Option<PeerHandle>>,
    stopping: Cell<bool>,
}

impl<E: Environment> Talks<E> {
    pub(crate) fn new(environment: E, identity: Identity, links: Arc<Links>) -> Self {
        Self {
            environment,
            identity,
            budget: FrameBudget::new(RAIL_BUDGET_BYTES),
            links,
            talks: RefCell::default(),
            stopping: Cell::new(false),
            waiting: RefCell::default(),
        }
    }

    /// Gives an order to the talk with an owner, which begins if need be.
    pub(crate) fn order(self: &Rc<Self>, endpoint: &Arc<str>, order: Order) {
        if self.stopping.get() {
            return refuse(order, "the client is closed");
        }
        let known = self.talks.borrow().get(endpoint).cloned();
        let talk = known.unwrap_or_else(|| self.begin(endpoint));
        let mut orders = talk.orders.borrow_mut();
        if orders.len() >= RAIL_ORDERS_MAX {
            return refuse(order, "too many orders are waiting for this peer");
        }
        orders.push_back(order);
        if let Some(sleeper) = talk.sleeper.borrow_mut().take() {
            sleeper.wake();
        }
    }

    fn begin(self: &Rc<Self>, endpoint: &Arc<str>) -> Rc<Talk<E>> {
        let talk = Rc::new(Talk {
            endpoint: endpoint.clone(),
            orders: RefCell::default(),
            sleeper: RefCell::default(),
            frames: RefCell::default(),
            stream: RefCell::default(),
            peer: RefCell::default(),
            stopping: Cell::new(false),
        });
        let mut talks = self.talks.borrow_mut();
        talks.insert(endpoint.clone(), talk.clone());
        let (talks, theirs) = (self.clone(), talk.clone());
        self.environment.spawn(async move {
            talks.run(&theirs).await;
            talks.end(&theirs);
        });
        talk
    }

    /// Breaks every connection and ends every talk.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        for talk in self.talks.borrow().values() {
            talk.stopping.set(true);
            talk.stream.borrow().iter().for_each(Stream::shutdown);
            if let Some(sleeper) = talk.sleeper.borrow_mut().take() {
                sleeper.wake();
            }
        }
        self.wake_if_ended();
    }

    /// Resolves when [`Talks::stop`] was called and every talk has ended.
    pub(crate) async fn ended(&self) {
        poll_fn(|context| {
            if self.stopping.get() && self.talks.borrow().is_empty() {
                return Poll::Ready(());
            }
            *self.waiting.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn wake_if_ended(&self) {
        if self.talks.borrow().is_empty()
            && let Some(waker) = self.waiting.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// The connection goes, and with it the queue pairs at the owner.
    fn end(&self, talk: &Talk<E>) {
        self.links.peers.suspend(&talk.endpoint);
        if let Some(peer) = talk.peer.take() {
            self.links.forget(&peer);
        }
        talk.stream.borrow().iter().for_each(Stream::shutdown);
        for order in talk.orders.take() {
            refuse(order, "the talk with this peer has ended");
        }
        self.talks.borrow_mut().remove(&talk.endpoint);
        self.wake_if_ended();
    }

    async fn run(&self, talk: &Talk<E>) {
        loop {
            let next = at_most(&self.environment, RAIL_RENEWAL, talk.next()).await;
            let is_idle = self.links.peers.idle(&talk.endpoint) >= RAIL_IDLE;
            if talk.stopping.get() || (next.is_none() && is_idle) {
                return;
            }
            if let Err(error) = self.carry_out(talk, next.unwrap_or(Order::Ask)).await {
                tracing::debug!(%error, peer = %talk.endpoint, "No talk about rails with this peer");
                return;
            }
        }
    }

    async fn carry_out(&self, talk: &Talk<E>, order: Order) -> io::Result<()> {
        match order {
            Order::Ask => self.ask(talk, false).await,
            Order::Fence(done) => {
                self.ask(talk, true).await?;
                // Nobody waits any more if it took too long.
                let _ = done.send(());
                Ok(())
            }
            Order::Offer(offer, done) => {
                let answer = self.offer(talk, &offer).await;
                let refused = answer.as_ref().err().map(io::Error::kind);
                done(answer.map_err(|error| error.to_string()));
                // A refusal in words is an answer; anything else has broken the connection.
                match refused {
                    None | Some(io::ErrorKind::Other) => Ok(()),
                    Some(kind) => Err(kind.into()),
                }
            }
        }
    }

    /// Asks for rails, which renews the lease. A connection that died meanwhile is made anew once.
    async fn ask(&self, talk: &Talk<E>, fence: bool) -> io::Result<()> {
        if talk.stream.borrow().is_some() {
            match self.ask_on_stream(talk, fence).await {
                Ok(()) => return Ok(()),
                Err(_) if !talk.stopping.get() => drop(talk.stream.take()),
                Err(error) => return Err(error),
            }
        }
        self.connect(talk).await
    }

    /// Connects and asks for the first time: what an earlier connection left behind is taken down.
    async fn connect(&self, talk: &Talk<E>) -> io::Result<()> {
        let address = self.address(&talk.endpoint).await?;
        let environment = &self.environment;
        let hello = Hello::new(Role::Client, self.identity);
        let bounds = (&self.budget, RAIL_BODY_BYTES_MAX);
        let connected =
            perigee_port::connect(environment, address, &hello, bounds, CONNECT_DEADLINE);
        let (frames, _) = connected.await?;
        *talk.stream.borrow_mut() = Some(frames.stream().clone());
        *talk.frames.borrow_mut() = Some(frames);
        self.ask_on_stream(talk, true).await
    }

    async fn ask_on_stream(&self, talk: &Talk<E>, fence: bool) -> io::Result<()> {
        let epoch = self.links.epoch().map_err(io::Error::other)?;
        let asked_at = monotonic();
        let frame = rail_wire::encode_request(RailsRequest { epoch, fence });
        let body = self.exchange(talk, frame).await?;
        let reply = rail_wire::decode_reply(&body)?;
        let peer = self.links.learn(&talk.endpoint, &reply, asked_at);
        *talk.peer.borrow_mut() = Some(peer.map_err(io::Error::other)?);
        Ok(())
    }

    async fn offer(&self, talk: &Talk<E>, offer: &EndpointOffer) -> io::Result<EndpointAnswer> {
        if talk.stream.borrow().is_none() {
            self.connect(talk).await?;
        }
        let body = self.exchange(talk, rail_wire::encode_offer(offer)).await?;
        rail_wire::decode_answer(&body)
    }

    /// One frame there and one back, in bounded time.
    async fn exchange(&self, talk: &Talk<E>, frame: Vec<u8>) -> io::Result<Vec<u8>> {
        let frames = talk.frames.take();
        let mut frames = frames.ok_or(io::ErrorKind::NotConnected)?;
        let stream = frames.stream().clone();
        let work = async {
            frames.send_bytes(frame).await?;
            frames.whole().await?;
            let (header, body) = frames.frame()?;
            let answered = answer(header.kind, body)?;
            frames.consume();
            Ok((frames, answered))
        };
        let (frames, answered) = within(&self.environment, RAIL_ANSWER, &stream, work).await?;
        *talk.frames.borrow_mut() = Some(frames);
        Ok(answered)
    }

    /// The address of an owner, after a bounded wait for its name.
    async fn address(&self, endpoint: &Arc<str>) -> io::Result<std::net::SocketAddr> {
        let end = self.environment.now() + CONNECT_DEADLINE;
        loop {
            if let Some(address) = self.links.names.at_hand(endpoint) {
                return Ok(address);
            }
            if self.environment.now() >= end {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "its name was not resolved",
                ));
            }
            self.environment.sleep(RAIL_ANSWER_PAUSE).await;
        }
    }
}

impl<E: Environment> Talk<E> {
    /// The next order. Resolves also when the talk is to stop.
    async fn next(&self) -> Order {
        poll_fn(|context| {
            if let Some(order) = self.orders.borrow_mut().pop_front() {
                return Poll::Ready(order);
            }
            if self.stopping.get() {
                return Poll::Ready(Order::Ask);
            }
            *self.sleeper.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// The body of an answer, or why there is none.
fn answer(kind: Kind, body: &[u8]) -> io::Result<Vec<u8>> {
    match kind {
        Kind::Reply => Ok(body.to_vec()),
        Kind::Failure => {
            let refused = decode_failure(body);
            let (status, message) = refused.map_err(|_| io::ErrorKind::InvalidData)?;
            let reason = format!("{message} ({status})");
            Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// An offer is answered whatever happens.
fn refuse(order: Order, reason: &str) {
    if let Order::Offer(_, done) = order {
        done(Err(reason.to_owned()));
    }
}
