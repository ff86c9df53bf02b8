//! A shard's connection to one target: connects when needed, then one exchange at a time.
//! Invariant: a connection on which anything went wrong is broken and never used again.

use super::borrowed::borrow;
use super::exchange::{Exchange, incoming, outgoing};
use super::mooncake;
use super::terms::Terms;
use crate::error::PeerError;
use crate::limits::{BODY_BYTES_MAX, CONNECT_DEADLINE};
use crate::peer_address::{Dialect, PeerAddress};
use crate::reply::Reply;
use crate::slice::Slice;
use crate::stats::{CountedExchange as Counted, RouteCounters};
use crate::target::Target;
use crate::wire::reply_bytes_min;
use perigee_activity::{Link, LinkRole};
use perigee_port::{FrameBudget, Frames, connect};
use perigee_schemas::Identity;
use perigee_schemas::session::{Hello, Role};
use perigee_shard::{Environment, Message, Stream, connect_within, within};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A connection that may be there.
pub(super) struct ShardConnection<E: Environment> {
    target: Arc<Target>,
    identity: Identity,
    budget: FrameBudget,
    /// Number of the shard.
    lane: u16,
    /// Which of the target's addresses comes first.
    turn: usize,
    open: Option<GreetedConnection<E>>,
}

struct GreetedConnection<E: Environment> {
    frames: Frames<E>,
    /// Of the NIC that it goes through.
    counters: Arc<RouteCounters>,
    exchange: Exchange,
    link: Link,
    /// How often the peer's host had vanished when it was made.
    vanished: u64,
}

impl<E: Environment> ShardConnection<E> {
    pub(super) fn new(
        target: Arc<Target>,
        (identity, budget): (Identity, FrameBudget),
        lane: u16,
        turn: usize,
    ) -> Self {
        Self { target, identity, budget, lane, turn, open: None }
    }

    /// Whether an exchange would use a connection that was used before.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Closes a connection that the peer has ended while it was idle, or whose peer has vanished.
    pub(super) fn sweep(&mut self) {
        let vanished = self.target.vanished();
        self.open.take_if(|open| open.vanished != vanished || !open.frames.stream().is_quiet());
    }

    /// Connects, if that is not done.
    pub(super) async fn open(&mut self, environment: &E, terms: Terms) -> Result<(), PeerError> {
        if self.open.is_none() {
            self.open = Some(self.connect(environment, terms).await?);
        }
        Ok(())
    }

    /// Moves one slice. `begins` gets the connection before anything is sent; `ended` says why this
    /// side wants the slice no more.
    pub(super) async fn exchange<S: Slice>(
        &mut self,
        environment: &E,
        slice: &S,
        terms: Terms,
        begins: impl Fn(&E::Stream),
        ended: impl Fn() -> Option<PeerError>,
    ) -> Result<(Reply, Arc<RouteCounters>), PeerError> {
        debug_assert!(slice.pieces().len() > 0, "a slice moves something");
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect(environment, terms).await?,
        };
        let left = self.left(environment, terms)?;
        begins(open.frames.stream());
        if let Some(end) = ended() {
            return Err(end);
        }
        let (stream, begun) = (open.frames.stream().clone(), environment.now());
        open.link.begin_wait();
        let talk = async {
            match self.target.dialect() {
                Dialect::Own { .. } => open.exchange(slice, terms.with_checksum).await,
                Dialect::Mooncake { with_status } => {
                    let reply = mooncake::exchange(&stream, slice, with_status).await;
                    reply.map(|reply| (reply, begun))
                }
            }
        };
        let outcome = within(environment, left, &stream, talk).await;
        open.link.end_wait();
        let now = environment.now();
        let mut counted = Counted {
            queued: begun.saturating_sub(terms.submitted),
            took: now.saturating_sub(begun),
            ended: now,
            ..Counted::of(slice, self.target.name(), &open.link, self.lane)
        };
        match outcome {
            Ok((reply, answered)) => {
                debug_assert_eq!(reply.status.len(), slice.pieces().len());
                debug_assert_eq!(open.exchange.unanswered(), 0, "one at a time");
                counted.take_reply(&reply);
                if reply.payload_bytes > 0 {
                    counted.arrived = (reply.payload_bytes, now.saturating_sub(answered));
                }
                counted.record();
                open.link.look(stream.socket());
                let counters = open.counters.clone();
                self.open = Some(open);
                Ok((reply, counters))
            }
            Err(error) => {
                let (peer, length) = (self.target.name(), terms.length);
                let broken = || PeerError::of_connection(&error, peer, length);
                let error = ended().unwrap_or_else(broken);
                counted.record_failure(&error);
                stream.shutdown();
                Err(error)
            }
        }
    }

    /// Takes the first address that leads to the peer.
    async fn connect(
        &self,
        environment: &E,
        terms: Terms,
    ) -> Result<GreetedConnection<E>, PeerError> {
        let mut failure = Err(PeerError::Closed);
        for address in self.target.addresses_from(self.turn) {
            failure = self.connect_at(address, environment, terms).await;
            let elsewhere = |error: &PeerError| error.is_of_one_address();
            if !failure.as_ref().is_err_and(elsewhere) {
                break;
            }
        }
        failure
    }

    async fn connect_at(
        &self,
        address: &PeerAddress,
        environment: &E,
        terms: Terms,
    ) -> Result<GreetedConnection<E>, PeerError> {
        let limit = self.left(environment, terms)?.min(CONNECT_DEADLINE);
        let vanished = self.target.vanished();
        let peer = (&**self.target.name(), address.address);
        let unreachable = |error| PeerError::of_connecting(&error, peer, (limit, terms.length));
        let (frames, epoch) = match self.target.dialect() {
            Dialect::Own { epoch } => {
                let hello = Hello::new(Role::Client, self.identity);
                let bounds = (&self.budget, BODY_BYTES_MAX);
                let connected = connect(environment, address.address, &hello, bounds, limit);
                let (mut frames, welcome) = connected.await.map_err(unreachable)?;
                if epoch.is_some_and(|epoch| epoch != welcome.epoch) {
                    let peer = self.target.name().to_string();
                    return Err(PeerError::Restarted { peer });
                }
                frames.buffer().expect_least(reply_bytes_min(welcome.protocol));
                (frames, epoch)
            }
            Dialect::Mooncake { .. } => {
                let connected = connect_within(environment, limit, address.address).await;
                let stream = connected.map_err(unreachable)?;
                (Frames::new(environment, &stream, &self.budget), None)
            }
        };
        Ok(GreetedConnection {
            counters: address.counters.clone(),
            exchange: Exchange::new(epoch.unwrap_or(0)),
            link: Link::of(frames.stream().socket(), LinkRole::Asks),
            frames,
            vanished,
        })
    }

    fn left(&self, environment: &E, terms: Terms) -> Result<Duration, PeerError> {
        let left = terms.due.checked_sub(environment.now());
        let late =
            || PeerError::Deadline { peer: self.target.name().to_string(), deadline: terms.length };
        left.filter(|left| !left.is_zero()).ok_or_else(late)
    }
}

impl<E: Environment> GreetedConnection<E> {
    /// The answer, and when it was there; its payload may have come later.
    async fn exchange<S: Slice>(
        &mut self,
        slice: &S,
        with_checksum: bool,
    ) -> io::Result<(Reply, Duration)> {
        let mut frame = Vec::with_capacity(192);
        self.exchange.request(&mut frame, slice, with_checksum);
        let mut message = Message::new();
        message.push_owned(frame);
        borrow(outgoing(slice), &mut message);
        self.frames.stream().send_message(message).await?;
        self.frames.whole().await?;
        let reply = self.exchange.reply(self.frames.buffer(), slice)?;
        let answered = self.frames.environment().now();
        let mut payload = Message::new();
        borrow(incoming(slice, &reply), &mut payload);
        debug_assert_eq!(payload.bytes() as u64, reply.payload_bytes);
        if payload.bytes() > 0 {
            self.frames.stream().receive_message(payload).await?;
        }
        Ok((reply, answered))
    }
}
