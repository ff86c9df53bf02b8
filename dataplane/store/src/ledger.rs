//! What lies in the segments of this process: the master tells it as it happens, and the next
//! master is told.
//!
//! Each segment has a book, and a connection to each shard of the master that carries records. When
//! the master is another one than before, the shards are told first what the book has.
//! Invariant: a book follows one life of the master at a time, and is announced only after the last
//! word of the life before.

mod announcement;
mod book;
mod keeper;

pub(crate) use keeper::LedgerKeeper;

use announcement::Part;
use book::SegmentBook;
use flatbuffers::FlatBufferBuilder;
use perigee_memory::journal::JournalError;
use perigee_port::{FrameBudget, Frames, connect};
use perigee_schemas::frame::{FrameHeader, MessageKind};
use perigee_schemas::limits::FRAME_BODY_BYTES_MAX;
use perigee_schemas::message::decode;
use perigee_schemas::session::{Hello, Role};
use perigee_schemas::{Identity, Status, master};
use perigee_shard::{Environment, Stream};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Longest that a connection may take to open, and an answer to come.
const DEADLINE: Duration = Duration::from_secs(2);
/// Pause before a master that does not answer, or does not know the segment, is asked again.
const RETRY: Duration = Duration::from_millis(50);
/// Pause between two reads of records. They are safe in the kernel meanwhile, and reading them one
/// by one would wake this thread for each put.
const REST: Duration = Duration::from_millis(20);
/// After so many bytes in one read there is no pause: the kernel holds only so many.
const BUSY_BYTES: usize = 64 << 10;
/// How long the last words of a master that is gone may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the next master must know before it mounts the segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Segments with objects of another life of the master, which are announced.
    pub announces: Vec<Identity>,
    /// Largest generation that was heard of.
    pub generation: u64,
}

/// The books of a process and the tasks that keep them, all on one shard.
pub struct SegmentLedger<E: Environment> {
    environment: E,
    client: Identity,
    /// Addresses of the master, as of now.
    addresses: Box<dyn Fn() -> Vec<SocketAddr>>,
    /// Called when a master has broken off.
    is_lost: Box<dyn Fn()>,
    books: RefCell<BTreeMap<Identity, Rc<Kept<E>>>>,
    budget: FrameBudget,
    /// Largest generation of segments that are gone.
    generation: Cell<u64>,
    is_stopped: Cell<bool>,
}

struct Kept<E: Environment> {
    book: RefCell<SegmentBook>,
    /// Connections to the shards that tell what becomes of the segment now.
    streams: RefCell<BTreeMap<u64, E::Stream>>,
    is_removed: Cell<bool>,
}

/// A connection on which records come.
struct Source<E: Environment> {
    frames: Frames<E>,
    life: u64,
    shard: u32,
    shards: u32,
}

impl<E: Environment> Kept<E> {
    fn is_told(&self) -> bool {
        !self.streams.borrow().is_empty()
    }

    fn cut(&self) {
        self.streams.borrow().values().for_each(Stream::shutdown);
    }
}

impl<E: Environment> SegmentLedger<E> {
    /// A ledger without segments. `addresses` tells where the master is, and `is_lost` is called
    /// when it has broken off.
    pub fn new(
        environment: &E,
        client: Identity,
        addresses: impl Fn() -> Vec<SocketAddr> + 'static,
        is_lost: impl Fn() + 'static,
    ) -> Rc<Self> {
        Rc::new(Self {
            environment: environment.clone(),
            client,
            addresses: Box::new(addresses),
            is_lost: Box::new(is_lost),
            books: RefCell::default(),
            budget: FrameBudget::new(4 * FRAME_BODY_BYTES_MAX),
            generation: Cell::new(0),
            is_stopped: Cell::new(false),
        })
    }

    /// Keeps the book of a segment from now on.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn add(self: &Rc<Self>, segment: Identity, bytes: u64) -> Result<(), JournalError> {
        let kept = Rc::new(Kept {
            book: RefCell::new(SegmentBook::new(segment, bytes)?),
            streams: RefCell::default(),
            is_removed: Cell::new(false),
        });
        self.books.borrow_mut().insert(segment, kept.clone());
        let ledger = self.clone();
        self.environment.spawn(async move { ledger.keep(&kept).await });
        Ok(())
    }

    /// A segment is gone.
    pub fn remove(&self, segment: Identity) {
        if let Some(kept) = self.books.borrow_mut().remove(&segment) {
            kept.is_removed.set(true);
            kept.cut();
            let generation = kept.book.borrow().generation();
            self.generation.set(self.generation.get().max(generation));
        }
    }

    /// Ends all tasks.
    pub fn stop(&self) {
        self.is_stopped.set(true);
        self.books.borrow().values().for_each(|kept| kept.cut());
    }

    /// Bytes of all journals.
    pub fn journal_bytes(&self) -> u64 {
        self.books.borrow().values().map(|kept| kept.book.borrow().journal_bytes()).sum()
    }

    /// To be called before the segments are mounted in a life of the master. Waits for the last
    /// words of the life before.
    pub async fn prepare(&self, life: u64) -> Prepared {
        let books: Vec<Rc<Kept<E>>> = self.books.borrow().values().cloned().collect();
        let end = self.environment.now() + LAST_WORDS;
        while books.iter().any(|kept| kept.is_told()) && self.environment.now() < end {
            self.environment.sleep(REST / 4).await;
        }
        let mut prepared = Prepared { generation: self.generation.get(), ..Prepared::default() };
        for kept in books {
            kept.cut();
            let mut book = kept.book.borrow_mut();
            match book.prepare(life) {
                Ok(true) => prepared.announces.push(book.id),
                Ok(false) => {}
                Err(error) => tracing::warn!(segment = %book.id, %error, "No journal"),
            }
            prepared.generation = prepared.generation.max(book.generation());
        }
        prepared
    }

    fn is_over(&self, kept: &Kept<E>) -> bool {
        self.is_stopped.get() || kept.is_removed.get()
    }

    /// Follows each shard of the master, in each round of the book.
    async fn keep(self: &Rc<Self>, kept: &Rc<Kept<E>>) {
        let taken: Rc<RefCell<Vec<u32>>> = Rc::default();
        let (mut round, mut shards, mut number) = (0, u32::MAX, 0);
        while !self.is_over(kept) {
            let now = kept.book.borrow().round();
            if now != round {
                (round, shards) = (now, u32::MAX);
                taken.take();
            }
            let missing = (taken.borrow().len() as u32) < shards;
            let covered = taken.borrow().clone();
            let source = match missing {
                true => self.source(kept, &covered, round).await,
                false => None,
            };
            let Some(source) = source else {
                self.environment.sleep(RETRY).await;
                continue;
            };
            if kept.book.borrow().round() != round {
                source.frames.stream().shutdown();
                continue;
            }
            shards = source.shards;
            taken.borrow_mut().push(source.shard);
            kept.book.borrow_mut().begin(source.shard, source.shards, source.life);
            let (ledger, kept, taken) = (self.clone(), kept.clone(), taken.clone());
            number += 1;
            kept.streams.borrow_mut().insert(number, source.frames.stream().clone());
            self.environment.spawn(async move {
                let shard = source.shard;
                ledger.read(&kept, source, round).await;
                kept.streams.borrow_mut().remove(&number);
                if kept.book.borrow().round() == round {
                    kept.book.borrow_mut().break_off(shard);
                    taken.borrow_mut().retain(|other| *other != shard);
                }
                if !ledger.is_over(&kept) {
                    (ledger.is_lost)();
                }
            });
        }
    }

    /// A connection to a shard that was not asked yet, on which records come next; `None` if there
    /// is none now.
    async fn source(&self, kept: &Kept<E>, taken: &[u32], round: u64) -> Option<Source<E>> {
        // Takes a while with many objects, while no shard waits for it.
        kept.book.borrow_mut().announced();
        let address = (self.addresses)().into_iter().next()?;
        let hello = Hello::new(Role::Node, self.client);
        let limits = (&self.budget, FRAME_BODY_BYTES_MAX);
        let connected = connect(&self.environment, address, &hello, limits, DEADLINE).await;
        let (mut frames, welcome) = connected.ok()?;
        let stream = frames.stream().clone();
        let asked = self.ask_for_records(&mut frames, kept, taken, round).await;
        let (shard, shards) = match asked {
            Ok(Some(of)) => of,
            Ok(None) => {
                stream.shutdown();
                return None;
            }
            Err(error) => {
                tracing::debug!(%error, "A shard of the master is not followed");
                stream.shutdown();
                return None;
            }
        };
        // Messages are short, and one read takes all that have come.
        frames.buffer().expect_ahead(BUSY_BYTES);
        Some(Source { frames, life: welcome.epoch, shard, shards })
    }

    async fn ask_for_records(
        &self,
        frames: &mut Frames<E>,
        kept: &Kept<E>,
        taken: &[u32],
        round: u64,
    ) -> io::Result<Option<(u32, u32)>> {
        let (id, bytes) = {
            let book = kept.book.borrow();
            (book.id, book.bytes)
        };
        let body = follow(self.client, id, taken);
        let (state, of, announced) = self
            .ask(frames, MessageKind::Follow, &body, |body| {
                let reply = decode::<master::FollowReply<'_>>(body).map_err(io::Error::other)?;
                Ok((reply.state(), (reply.shard(), reply.shards()), reply.announced()))
            })
            .await?;
        if of.1 == 0 || of.0 >= of.1 {
            return Err(io::Error::other("The master has no such shard"));
        }
        match state {
            master::FollowState::Records => return Ok(Some(of)),
            master::FollowState::Announce if kept.book.borrow().round() == round => {}
            _ => return Ok(None),
        }
        let live = kept.book.borrow_mut().announced();
        let mut share = live.share(bytes, of, announced);
        loop {
            let part = share.part();
            let body = announce(self.client, id, &part);
            let status = self
                .ask(frames, MessageKind::Announce, &body, |body| {
                    let reply =
                        decode::<master::StatusReply<'_>>(body).map_err(io::Error::other)?;
                    let status = reply.status().and_then(|status| status.iter().next());
                    Ok(Status::from_peer(status.unwrap_or(Status::InternalError.code())))
                })
                .await?;
            status.ok().map_err(io::Error::other)?;
            if part.is_last {
                return Ok(Some(of));
            }
        }
    }

    async fn ask<T>(
        &self,
        frames: &mut Frames<E>,
        kind: MessageKind,
        body: &[u8],
        read: impl Fn(&[u8]) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut frame = FrameHeader::encode(kind, 1, body).to_vec();
        frame.extend_from_slice(body);
        frames.send_bytes(frame).await?;
        frames.finish(DEADLINE).await?;
        let (header, body) = frames.frame()?;
        if header.kind != MessageKind::Reply {
            return Err(io::Error::other("The master refused"));
        }
        let answer = read(body);
        frames.consume();
        answer
    }

    /// Keeps what a shard tells until it ends, or the next round of the book has begun.
    async fn read(&self, kept: &Kept<E>, mut source: Source<E>, round: u64) {
        let stream = source.frames.stream().clone();
        while let Ok(true) = source.frames.begun().await
            && kept.book.borrow().round() == round
            && let Ok(bytes) = self.read_some(kept, &mut source).await
        {
            if bytes < BUSY_BYTES {
                self.environment.sleep(REST).await;
            }
        }
        stream.shutdown();
    }

    /// Keeps the records of the messages that have arrived; returns their length.
    async fn read_some(&self, kept: &Kept<E>, source: &mut Source<E>) -> io::Result<usize> {
        let mut bytes = 0;
        loop {
            source.frames.finish(DEADLINE).await?;
            let (header, body) = source.frames.frame()?;
            if header.kind != MessageKind::Records {
                return Err(io::Error::other("The master sent no records"));
            }
            let message = decode::<master::Records<'_>>(body).map_err(io::Error::other)?;
            let records = message.records().map_or(&[][..], |records| records.bytes());
            bytes += records.len();
            let mut book = kept.book.borrow_mut();
            book.keep(source.shard, records)?;
            if message.is_whole() {
                book.end(source.shard);
            }
            drop(book);
            source.frames.consume();
            if source.frames.buffer().is_empty() {
                return Ok(bytes);
            }
        }
    }
}

impl<E: Environment> std::fmt::Debug for SegmentLedger<E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SegmentLedger")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

fn follow(client: Identity, segment: Identity, taken: &[u32]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let args = master::FollowRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        segment_high: segment.high(),
        segment_low: segment.low(),
        taken: Some(builder.create_vector(taken)),
    };
    let root = master::FollowRequest::create(&mut builder, &args);
    builder.finish_minimal(root);
    builder.finished_data().to_vec()
}

fn announce(client: Identity, segment: Identity, part: &Part) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let args = master::AnnounceRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        segment_high: segment.high(),
        segment_low: segment.low(),
        records: Some(builder.create_vector(&part.records)),
        free_offset: Some(builder.create_vector(&part.free_offset)),
        free_bytes: Some(builder.create_vector(&part.free_bytes)),
        is_last: part.is_last,
    };
    let root = master::AnnounceRequest::create(&mut builder, &args);
    builder.finish_minimal(root);
    builder.finished_data().to_vec()
}
