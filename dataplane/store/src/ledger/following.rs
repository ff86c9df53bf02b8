//! Connections to shards of the master: what lies in a segment is announced where that is asked
//! for, and records come from then on.
//! Invariant: from the answer that says that records follow nothing is sent.

use super::announcement::{AnnouncedShare, TakenRecords};
use super::kept::Kept;
use super::shard_place::ShardPlace;
use perigee_port::{FrameBudget, Frames, connect};
use perigee_rpc::{announce_request, follow_request};
use perigee_schemas::frame::MessageKind;
use perigee_schemas::limits::FRAME_BODY_BYTES_MAX;
use perigee_schemas::message::decode;
use perigee_schemas::session::{Hello, Role};
use perigee_schemas::{Identity, Status, frame::FrameHeader, master};
use perigee_shard::{Environment, Stream};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Longest that a connection may take to open, and an answer to come.
const DEADLINE: Duration = Duration::from_secs(2);
/// Pause between two reads of records. They are safe in the kernel until then, and reading them one
/// by one would wake this thread for each put.
const REST: Duration = Duration::from_millis(20);
/// After so many bytes in one read there is no pause: the kernel holds only so many.
const BUSY_BYTES: usize = 64 << 10;

/// Who asks, and where.
pub(super) struct Dialler<E: Environment> {
    environment: E,
    client: Identity,
    /// Addresses of the master, as of now.
    addresses: Box<dyn Fn() -> Vec<SocketAddr>>,
    budget: FrameBudget,
}

/// A connection on which records come.
pub(super) struct Source<E: Environment> {
    frames: Frames<E>,
    pub(super) life: u64,
    pub(super) of: ShardPlace,
    /// The book's when it was asked.
    pub(super) round: u64,
}

/// What came of a connection.
pub(super) enum Dialled<E: Environment> {
    /// Records come on it.
    Source(Source<E>),
    /// It led to a shard that was asked before.
    Taken,
    /// The master does not answer, or does not know the segment.
    Nothing,
}

/// Why no records come.
enum NotFollowed {
    Taken,
    Unknown,
    /// Not a master that knows what following is.
    Foreign,
    Broken(io::Error),
}

impl From<io::Error> for NotFollowed {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl<E: Environment> Dialler<E> {
    pub(super) fn new(
        environment: &E,
        client: Identity,
        addresses: impl Fn() -> Vec<SocketAddr> + 'static,
    ) -> Self {
        Self {
            environment: environment.clone(),
            client,
            addresses: Box::new(addresses),
            budget: FrameBudget::new(4 * FRAME_BODY_BYTES_MAX),
        }
    }

    /// Asks a shard of the master for the records of a segment, any that has not been asked.
    pub(super) async fn dial(&self, kept: &Kept<E>) -> Dialled<E> {
        let round = kept.round();
        let Some(address) = (self.addresses)().into_iter().next() else {
            return Dialled::Nothing;
        };
        let hello = Hello::new(Role::Node, self.client);
        let limits = (&self.budget, FRAME_BODY_BYTES_MAX);
        let connected = connect(&self.environment, address, &hello, limits, DEADLINE).await;
        let Ok((mut frames, welcome)) = connected else {
            return Dialled::Nothing;
        };
        let life = welcome.epoch;
        let refusal = match self.ask_for_records(&mut frames, kept, (life, round)).await {
            Ok(of) => {
                // Messages are short, and one read takes all that have come.
                frames.buffer().expect_ahead(BUSY_BYTES);
                return Dialled::Source(Source { frames, life, of, round });
            }
            Err(refusal) => refusal,
        };
        frames.stream().shutdown();
        match refusal {
            NotFollowed::Taken => return Dialled::Taken,
            NotFollowed::Unknown => {}
            NotFollowed::Foreign => {
                tracing::debug!("The master is of an older build: nothing outlives it");
                kept.note_refusal();
            }
            NotFollowed::Broken(error) => {
                tracing::debug!(%error, "A shard of the master is not followed");
            }
        }
        Dialled::Nothing
    }

    /// Which shard tells.
    async fn ask_for_records(
        &self,
        frames: &mut Frames<E>,
        kept: &Kept<E>,
        (life, round): (u64, u64),
    ) -> Result<ShardPlace, NotFollowed> {
        let (id, bytes) = {
            let book = kept.book.borrow();
            (book.id, book.bytes)
        };
        let body = follow_request(self.client, id, &kept.taken());
        let (state, of, number, from, takes) = ask(frames, MessageKind::Follow, &body, |body| {
            let reply = decode::<master::FollowReply<'_>>(body).map_err(io::Error::other)?;
            let of = ShardPlace { shard: reply.shard(), shards: reply.shards() };
            let takes =
                TakenRecords { parts: reply.parts(), replica_counts: reply.replica_counts() };
            Ok((reply.state(), of, reply.number(), reply.announced(), takes))
        })
        .await?;
        if of.shard >= of.shards {
            return Err(io::Error::other("The master has no such shard").into());
        }
        match state {
            master::FollowState::Records => return Ok(of),
            master::FollowState::Taken => return Err(NotFollowed::Taken),
            master::FollowState::Announce if kept.round() == round => {}
            _ => return Err(NotFollowed::Unknown),
        }
        let live = kept.book.borrow_mut().announced((life, number));
        self.announce(frames, id, live.share(bytes, of, from, takes)).await?;
        Ok(of)
    }

    async fn announce(
        &self,
        frames: &mut Frames<E>,
        segment: Identity,
        mut share: AnnouncedShare<'_>,
    ) -> Result<(), NotFollowed> {
        loop {
            let part = share.part();
            let body = announce_request(self.client, segment, &part);
            let status = ask(frames, MessageKind::Announce, &body, |body| {
                let reply = decode::<master::StatusReply<'_>>(body).map_err(io::Error::other)?;
                let status = reply.status().and_then(|status| status.iter().next());
                Ok(Status::from_peer(status.unwrap_or(Status::InternalError.code())))
            })
            .await?;
            status.ok().map_err(io::Error::other)?;
            if part.is_last {
                return Ok(());
            }
        }
    }
}

impl<E: Environment> Source<E> {
    pub(super) fn stream(&self) -> &E::Stream {
        self.frames.stream()
    }

    pub(super) fn cut(&self) {
        self.stream().shutdown();
    }

    /// Keeps what the shard tells until it ends, or the next round of the book has begun.
    pub(super) async fn read(mut self, environment: &E, kept: &Kept<E>) {
        while let Ok(true) = self.frames.begun().await
            && kept.round() == self.round
            && let Ok(bytes) = self.read_some(kept).await
        {
            if bytes < BUSY_BYTES {
                environment.sleep(REST).await;
            }
        }
        self.cut();
    }

    /// Keeps the records of the messages that have arrived; returns their length.
    async fn read_some(&mut self, kept: &Kept<E>) -> io::Result<usize> {
        let mut bytes = 0;
        loop {
            self.frames.finish(DEADLINE).await?;
            let (header, body) = self.frames.frame()?;
            if header.kind != MessageKind::Records {
                return Err(io::Error::other("The master sent no records"));
            }
            let message = decode::<master::Records<'_>>(body).map_err(io::Error::other)?;
            let records = message.records().map_or(&[][..], |records| records.bytes());
            bytes += records.len();
            let mut book = kept.book.borrow_mut();
            if book.round() != self.round {
                return Err(io::Error::other("The segment was mounted again"));
            }
            book.keep(self.of.shard, records)?;
            if message.is_whole() {
                book.end(self.of.shard);
            }
            drop(book);
            self.frames.consume();
            if self.frames.buffer().is_empty() {
                return Ok(bytes);
            }
        }
    }
}

async fn ask<E: Environment, T>(
    frames: &mut Frames<E>,
    kind: MessageKind,
    body: &[u8],
    read: impl Fn(&[u8]) -> io::Result<T>,
) -> Result<T, NotFollowed> {
    let mut frame = FrameHeader::encode(kind, 1, body).to_vec();
    frame.extend_from_slice(body);
    frames.send_bytes(frame).await?;
    frames.finish(DEADLINE).await?;
    let (header, body) = frames.frame()?;
    if header.kind != MessageKind::Reply {
        return Err(NotFollowed::Foreign);
    }
    let answer = read(body)?;
    frames.consume();
    Ok(answer)
}

impl<E: Environment> std::fmt::Debug for Dialler<E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dialler").field("client", &self.client).finish_non_exhaustive()
    }
}
