//! Sessions with the owners of memory about rails: one connection to each, on a shard of its own.
//! Invariant: while a session lasts its lease is renewed in time; when it ends, the peer's rails
//! are left.

use crate::context::RdmaContext;
use crate::limits::{
    ANSWER_DEADLINE, ANSWER_PAUSE, BODY_BYTES_MAX, BUDGET_BYTES, ORDERS_MAX, RENEWAL, TICKETS_MAX,
};
use crate::wire::{self as rails_wire, RailsRequest};
use perigee_mover::CONNECT_DEADLINE;
use perigee_port::{FrameBudget, Frames};
use perigee_rails::{EndpointAnswer, EndpointOffer, ExchangeDone, PeerHandle};
use perigee_schemas::Identity;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::session::{Hello, Role, decode_failure};
use perigee_shard::{Environment, Stream, at_most, monotonic, within};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Poll, Waker};
use std::time::Duration;

/// What a session is to do.
pub(crate) enum SessionOrder {
    /// Learn what the owner has; first have our queue pairs there taken down if `fence` says so.
    /// Tickets go back with it. All who want that before it begins share one question.
    Ask { fence: bool, done: Vec<Done>, returned: Vec<u64> },
    /// Take an offer of queue pairs there.
    Offer(EndpointOffer, ExchangeDone),
}

/// Gets once whether an order was carried out, also if it is lost.
pub struct Done(Option<Box<dyn FnOnce(bool) + Send>>);

impl Done {
    /// Calls `hear`, from any thread; it must not wait.
    pub fn new(hear: impl FnOnce(bool) + Send + 'static) -> Self {
        Self(Some(Box::new(hear)))
    }

    /// One that a thread can wait for.
    pub(crate) fn watched() -> (Self, Receiver<bool>) {
        let (tell, heard) = channel();
        let hear = move |is_done| {
            let _ = tell.send(is_done);
        };
        (Self::new(hear), heard)
    }

    fn tell(&mut self, is_done: bool) {
        if let Some(hear) = self.0.take() {
            hear(is_done);
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.tell(false);
    }
}

/// All sessions of a shard.
pub(crate) struct Sessions<E: Environment> {
    environment: E,
    identity: Identity,
    /// Of answers that have begun to arrive.
    budget: FrameBudget,
    reach: Arc<RdmaContext>,
    sessions: RefCell<HashMap<Arc<str>, Rc<OwnerSession<E>>>>,
    stopping: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

struct OwnerSession<E: Environment> {
    endpoint: Arc<str>,
    orders: RefCell<VecDeque<SessionOrder>>,
    sleeper: RefCell<Option<Waker>>,
    /// The connection, but while an exchange has it.
    frames: RefCell<Option<Frames<E>>>,
    /// Its stream, to break it off.
    stream: RefCell<Option<E::Stream>>,
    peer: RefCell<Option<PeerHandle>>,
    /// Random number of the owner's run, from its greeting.
    life: Cell<u64>,
    /// Version of the list that came over this connection; 0 for none.
    listed: Cell<u64>,
    /// When the owner was last asked, or the session began.
    asked_at: Cell<Duration>,
    stopping: Cell<bool>,
}

impl<E: Environment> Sessions<E> {
    pub(crate) fn new(environment: E, identity: Identity, reach: Arc<RdmaContext>) -> Self {
        Self {
            environment,
            identity,
            budget: FrameBudget::new(BUDGET_BYTES),
            reach,
            sessions: RefCell::default(),
            stopping: Cell::new(false),
            waiting: RefCell::default(),
        }
    }

    /// Gives an order to the session with an owner, which begins if need be.
    pub(crate) fn order(self: &Rc<Self>, endpoint: &Arc<str>, order: SessionOrder) {
        if self.stopping.get() {
            self.reach.peers.suspend(endpoint);
            return refuse(order, "this process is closing");
        }
        let known = self.sessions.borrow().get(endpoint).cloned();
        let session = match known {
            Some(session) => session,
            // They have ended with the session that they were issued in.
            None if order.only_returns() => return,
            None => self.begin(endpoint),
        };
        let mut orders = session.orders.borrow_mut();
        let Some(order) = share_question(&mut orders, order) else {
            return;
        };
        if orders.len() >= ORDERS_MAX {
            return refuse(order, "too many orders are waiting for this peer");
        }
        orders.push_back(order);
        debug_assert!(orders.len() <= ORDERS_MAX);
        if let Some(sleeper) = session.sleeper.borrow_mut().take() {
            sleeper.wake();
        }
    }

    fn begin(self: &Rc<Self>, endpoint: &Arc<str>) -> Rc<OwnerSession<E>> {
        let session = Rc::new(OwnerSession {
            endpoint: endpoint.clone(),
            orders: RefCell::default(),
            sleeper: RefCell::default(),
            frames: RefCell::default(),
            stream: RefCell::default(),
            peer: RefCell::default(),
            life: Cell::new(0),
            listed: Cell::new(0),
            asked_at: Cell::new(self.environment.now()),
            stopping: Cell::new(false),
        });
        let mut sessions = self.sessions.borrow_mut();
        sessions.insert(endpoint.clone(), session.clone());
        let (sessions, theirs) = (self.clone(), session.clone());
        self.environment.spawn(async move {
            let is_idle = sessions.run(&theirs).await;
            sessions.end(&theirs, is_idle);
        });
        session
    }

    /// Breaks every connection and ends every session.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        for session in self.sessions.borrow().values() {
            session.stopping.set(true);
            session.stream.borrow().iter().for_each(Stream::shutdown);
            if let Some(sleeper) = session.sleeper.borrow_mut().take() {
                sleeper.wake();
            }
        }
        self.wake_if_ended();
    }

    /// Resolves when [`Sessions::stop`] was called and every session has ended.
    pub(crate) async fn ended(&self) {
        poll_fn(|context| {
            if self.stopping.get() && self.sessions.borrow().is_empty() {
                return Poll::Ready(());
            }
            *self.waiting.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn wake_if_ended(&self) {
        if self.sessions.borrow().is_empty()
            && let Some(waker) = self.waiting.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// The connection goes, and with it the queue pairs at the owner.
    fn end(&self, session: &OwnerSession<E>, is_idle: bool) {
        match is_idle {
            true => self.reach.peers.rest(&session.endpoint),
            false => self.reach.peers.suspend(&session.endpoint),
        }
        if let Some(peer) = session.peer.take() {
            self.reach.forget(&peer);
        }
        session.stream.borrow().iter().for_each(Stream::shutdown);
        for order in session.orders.take() {
            refuse(order, "the session with this peer has ended");
        }
        let removed = self.sessions.borrow_mut().remove(&session.endpoint);
        // Another one would go on without being in the table, and nothing would stop it.
        assert!(removed.is_some_and(|removed| std::ptr::eq(&raw const *removed, session)));
        self.wake_if_ended();
    }

    /// Carries out orders until the peer is lost, or is not wanted any more: then true.
    async fn run(&self, session: &OwnerSession<E>) -> bool {
        loop {
            // Also between many orders the lease is renewed.
            let due = session.asked_at.get() + RENEWAL;
            let left = due.saturating_sub(self.environment.now());
            let next = match left.is_zero() {
                true => None,
                false => at_most(&self.environment, left, session.next()).await,
            };
            let is_idle = self.reach.peers.is_idle(&session.endpoint);
            if session.stopping.get() {
                return false;
            }
            let order = match next {
                Some(order) => order,
                None if is_idle && session.orders.borrow().is_empty() => return true,
                None => SessionOrder::question(),
            };
            if let Err(error) = self.carry_out(session, order).await {
                tracing::debug!(%error, peer = %session.endpoint, "No session about rails with this peer");
                return false;
            }
        }
    }

    async fn carry_out(&self, session: &OwnerSession<E>, order: SessionOrder) -> io::Result<()> {
        match order {
            SessionOrder::Ask { fence, done, returned } => {
                self.ask(session, fence, returned).await?;
                done.into_iter().for_each(|mut done| done.tell(true));
                Ok(())
            }
            SessionOrder::Offer(offer, done) => {
                let answer = self.offer(session, &offer).await;
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

    /// Asks for rails, which renews the lease. A connection that has died is made again once.
    /// Tickets end with the connection that they were issued beside.
    async fn ask(
        &self,
        session: &OwnerSession<E>,
        fence: bool,
        returned: Vec<u64>,
    ) -> io::Result<()> {
        if session.stream.borrow().is_some() {
            match self.ask_on_stream(session, fence, returned).await {
                Ok(()) => return Ok(()),
                Err(_) if !session.stopping.get() => drop(session.stream.take()),
                Err(error) => return Err(error),
            }
        }
        self.connect(session).await
    }

    /// Connects and asks for the first time: what an earlier connection left behind is taken down.
    async fn connect(&self, session: &OwnerSession<E>) -> io::Result<()> {
        let address = self.address(session).await?;
        let environment = &self.environment;
        let hello = Hello::new(Role::Client, self.identity);
        let bounds = (&self.budget, BODY_BYTES_MAX);
        let connected =
            perigee_port::connect(environment, address, &hello, bounds, CONNECT_DEADLINE);
        let (frames, welcome) = connected.await?;
        // It could not be broken off before it was known.
        session.check_wanted()?;
        session.life.set(welcome.epoch);
        session.listed.set(0);
        *session.stream.borrow_mut() = Some(frames.stream().clone());
        *session.frames.borrow_mut() = Some(frames);
        self.ask_on_stream(session, true, Vec::new()).await
    }

    async fn ask_on_stream(
        &self,
        session: &OwnerSession<E>,
        fence: bool,
        returned: Vec<u64>,
    ) -> io::Result<()> {
        let epoch = self.reach.epoch().map_err(io::Error::other)?;
        let asked_at = monotonic();
        session.asked_at.set(self.environment.now());
        let at_hand = self.reach.version(&session.endpoint);
        let version = session.listed.get();
        let version = if at_hand == version { version } else { 0 };
        let request = RailsRequest { epoch, fence, version, returned };
        let frame = rails_wire::encode_request(&request);
        let body = self.exchange(session, frame).await?;
        let reply = rails_wire::decode_reply(&body)?;
        let owner = (&session.endpoint, session.life.get());
        let learned = self.reach.learn(owner, &reply, request.version, asked_at);
        *session.peer.borrow_mut() = Some(learned.map_err(io::Error::other)?);
        session.listed.set(reply.version);
        Ok(())
    }

    async fn offer(
        &self,
        session: &OwnerSession<E>,
        offer: &EndpointOffer,
    ) -> io::Result<EndpointAnswer> {
        if session.stream.borrow().is_none() {
            self.connect(session).await?;
        }
        let body = self.exchange(session, rails_wire::encode_offer(offer)).await?;
        rails_wire::decode_answer(&body)
    }

    /// One frame there and one back, in bounded time.
    async fn exchange(&self, session: &OwnerSession<E>, frame: Vec<u8>) -> io::Result<Vec<u8>> {
        debug_assert!(session.stream.borrow().is_some(), "what can be broken off is known");
        let frames = session.frames.take();
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
        let (frames, answered) = within(&self.environment, ANSWER_DEADLINE, &stream, work).await?;
        *session.frames.borrow_mut() = Some(frames);
        Ok(answered)
    }

    /// The address of an owner, after a bounded wait for its name.
    async fn address(&self, session: &OwnerSession<E>) -> io::Result<std::net::SocketAddr> {
        let end = self.environment.now() + CONNECT_DEADLINE;
        loop {
            session.check_wanted()?;
            if let Some(address) = self.reach.names.at_hand(&session.endpoint) {
                return Ok(address);
            }
            if self.environment.now() >= end {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "its name was not resolved"));
            }
            self.environment.sleep(ANSWER_PAUSE).await;
        }
    }
}

impl<E: Environment> OwnerSession<E> {
    /// The next order. Resolves also when the session is to stop.
    async fn next(&self) -> SessionOrder {
        poll_fn(|context| {
            if let Some(order) = self.orders.borrow_mut().pop_front() {
                return Poll::Ready(order);
            }
            if self.stopping.get() {
                return Poll::Ready(SessionOrder::question());
            }
            *self.sleeper.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// An error if this process is closing.
    fn check_wanted(&self) -> io::Result<()> {
        match self.stopping.get() {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    }
}

/// Adds a question to one that waits, if there is one: what comes before that in the queue has not
/// begun either, so a fence may come earlier. What is left has to be queued.
fn share_question(
    orders: &mut VecDeque<SessionOrder>,
    order: SessionOrder,
) -> Option<SessionOrder> {
    let SessionOrder::Ask { fence, mut done, mut returned } = order else {
        return Some(order);
    };
    let has_room = |tickets: &Vec<u64>| tickets.len() + returned.len() <= TICKETS_MAX;
    let waiting = orders.iter_mut().find_map(|order| match order {
        SessionOrder::Ask { fence, done, returned } if has_room(returned) => {
            Some((fence, done, returned))
        }
        SessionOrder::Ask { .. } | SessionOrder::Offer(..) => None,
    });
    let Some((its_fence, its_done, its_returned)) = waiting else {
        return Some(SessionOrder::Ask { fence, done, returned });
    };
    *its_fence |= fence;
    its_done.append(&mut done);
    its_returned.append(&mut returned);
    None
}

impl SessionOrder {
    /// Whether all that it is to do is to return tickets.
    fn only_returns(&self) -> bool {
        let SessionOrder::Ask { fence, done, returned } = self else {
            return false;
        };
        !fence && done.is_empty() && !returned.is_empty()
    }

    /// A question that nothing waits for.
    fn question() -> Self {
        SessionOrder::Ask { fence: false, done: Vec::new(), returned: Vec::new() }
    }
}

/// The body of an answer, or why there is none.
fn answer(kind: MessageKind, body: &[u8]) -> io::Result<Vec<u8>> {
    match kind {
        MessageKind::Reply => Ok(body.to_vec()),
        MessageKind::Failure => {
            let refused = decode_failure(body);
            let (status, message) = refused.map_err(|_| io::ErrorKind::InvalidData)?;
            let reason = format!("{message} ({status})");
            Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Does not carry an order out; its sender hears of it.
pub(crate) fn refuse(order: SessionOrder, reason: &str) {
    if let SessionOrder::Offer(_, done) = order {
        done(Err(reason.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_want_a_fence_before_it_begins_share_one_and_hear_of_it() {
        let (tell, heard) = channel();
        let ask = |fence| {
            let tell = tell.clone();
            let done = vec![Done::new(move |is_done| tell.send(is_done).unwrap())];
            SessionOrder::Ask { fence, done, returned: vec![7] }
        };
        let mut orders = VecDeque::new();
        let first = share_question(&mut orders, ask(false));
        orders.extend(first);
        for _ in 0..2 * ORDERS_MAX {
            assert!(share_question(&mut orders, ask(true)).is_none());
        }
        let Some(SessionOrder::Ask { fence: true, done, returned }) = orders.pop_front() else {
            panic!("one of them asks for a fence");
        };
        assert_eq!(returned, [7; 1 + 2 * ORDERS_MAX]);
        assert!(orders.is_empty() && heard.try_recv().is_err());
        done.into_iter().for_each(|mut done| done.tell(true));
        let heard: Vec<bool> = heard.try_iter().collect();
        assert_eq!(heard, [true; 1 + 2 * ORDERS_MAX]);
        let begun = share_question(&mut orders, ask(true));
        assert!(begun.is_some(), "the one before has begun");
    }
}
