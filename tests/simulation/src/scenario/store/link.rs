//! Calls to the master as production clients make them: greeting, frames, one call at a time, one
//! deadline for each.
//! Invariant: a call that brings no answer in time ends its connection, so that no answer is taken
//! for another's.

use super::wire::{self, Given};
use crate::environment::SimulatedEnvironment;
use crate::world::World;
use perigee_port::{FrameBudget, Frames, connect};
use perigee_schemas::Identity;
use perigee_schemas::frame::{FrameHeader, MessageKind};
use perigee_schemas::limits::FRAME_BODY_BYTES_MAX;
use perigee_schemas::session::{Hello, Role, decode_failure};
use perigee_shard::{Environment, Stream, within};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Longest wait for an answer.
pub(super) const CALL_DEADLINE: Duration = Duration::from_secs(5);
/// Silence after which a connection is opened again: the master closes those of strangers after two
/// minutes.
const REST_MAX: Duration = Duration::from_secs(60);

/// An answer, and which life of the master has given it.
pub(super) struct Answer {
    pub(super) body: Vec<u8>,
    pub(super) epoch: u64,
}

/// A connection to the master, opened when it is needed.
pub(super) struct Link {
    environment: SimulatedEnvironment,
    world: Rc<World>,
    master: SocketAddr,
    client: Identity,
    budget: FrameBudget,
    open: RefCell<Option<Open>>,
    requests: Cell<u64>,
    /// Which life of the master it has met last.
    met: Cell<u64>,
    /// Leases that go back with the next call.
    given_back: RefCell<Vec<Given>>,
}

struct Open {
    frames: Frames<SimulatedEnvironment>,
    epoch: u64,
    used: Duration,
}

impl Link {
    pub(super) fn new(
        environment: &SimulatedEnvironment,
        master: SocketAddr,
        client: Identity,
    ) -> Self {
        Self {
            environment: environment.clone(),
            world: environment.world().clone(),
            master,
            client,
            budget: FrameBudget::new(FRAME_BODY_BYTES_MAX * 2),
            open: RefCell::default(),
            requests: Cell::new(0),
            met: Cell::new(0),
            given_back: RefCell::default(),
        }
    }

    /// Gives a lease back with the next call.
    pub(super) fn give_back(&self, lease: Given) {
        self.given_back.borrow_mut().push(lease);
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        if let Some(open) = self.open.take() {
            open.frames.stream().shutdown();
        }
    }

    /// Asks the master; `None` if no answer came in time, carried out or not. A connection may have
    /// died while it rested; then what can be repeated is asked once more.
    pub(super) async fn ask(&self, kind: MessageKind, body: &[u8]) -> Option<Answer> {
        let end = self.environment.now() + CALL_DEADLINE;
        if let Some(open) = self.rested() {
            match self.exchange(open, end, kind, body).await {
                Err(error) if is_repeatable(kind) && error.kind() != io::ErrorKind::TimedOut => {}
                answer => return answer.ok(),
            }
        }
        let open = self.connect(end).await.ok()?;
        self.exchange(open, end, kind, body).await.ok()
    }

    async fn exchange(
        &self,
        mut open: Open,
        end: Duration,
        kind: MessageKind,
        body: &[u8],
    ) -> io::Result<Answer> {
        self.requests.set(self.requests.get() + 1);
        let request = self.requests.get();
        let mut frame = wire::give_back(&self.given_back.take());
        frame.extend_from_slice(&FrameHeader::encode(kind, request, body));
        frame.extend_from_slice(body);
        let left = end.saturating_sub(self.environment.now());
        let stream = open.frames.stream().clone();
        let exchange = async {
            open.frames.send_bytes(frame).await?;
            open.frames.whole().await
        };
        let exchanged = within(&self.environment, left, &stream, exchange).await;
        let answer = exchanged.and_then(|()| self.read(&open.frames, request));
        match answer {
            Ok(body) => {
                open.frames.consume();
                open.used = self.environment.now();
                let epoch = open.epoch;
                *self.open.borrow_mut() = Some(open);
                Ok(Answer { body, epoch })
            }
            Err(error) => {
                stream.shutdown();
                Err(error)
            }
        }
    }

    /// The connection of the last call, unless the master may have closed it because it was idle.
    fn rested(&self) -> Option<Open> {
        let open = self.open.take()?;
        let is_young = self.environment.now() - open.used < REST_MAX;
        if is_young && open.frames.stream().is_quiet() {
            return Some(open);
        }
        open.frames.stream().shutdown();
        None
    }

    async fn connect(&self, end: Duration) -> io::Result<Open> {
        let hello = Hello { met: self.met.get(), ..Hello::new(Role::Client, self.client) };
        let limits = (&self.budget, FRAME_BODY_BYTES_MAX);
        let left = end.saturating_sub(self.environment.now());
        let greeted = connect(&self.environment, self.master, &hello, limits, left);
        let (frames, welcome) = greeted.await?;
        self.met.set(welcome.epoch);
        Ok(Open { frames, epoch: welcome.epoch, used: self.environment.now() })
    }

    fn read(&self, frames: &Frames<SimulatedEnvironment>, request: u64) -> io::Result<Vec<u8>> {
        let (header, body) = frames.frame()?;
        if header.kind == MessageKind::Failure {
            let why = decode_failure(body).map(|(_, text)| text);
            self.world.violate(format!("The master refused a call: {why:?}"));
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.world.check(header.request == request, || {
            "The master answered another call than was asked".to_owned()
        });
        Ok(body.to_vec())
    }
}

/// Whether a call may be carried out twice, as production clients have it.
fn is_repeatable(kind: MessageKind) -> bool {
    let once = [
        MessageKind::PutStart,
        MessageKind::Remove,
        MessageKind::RemoveAll,
        MessageKind::FetchMoves,
        MessageKind::FetchDemotions,
    ];
    !once.contains(&kind)
}
