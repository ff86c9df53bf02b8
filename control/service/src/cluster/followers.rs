//! Owners that follow what becomes of their segments: records go to them before the call that made
//! them is answered.
//! Invariant: the records of a segment are sent in the order in which they were noted, each once,
//! or the connection breaks.

use super::control_shard::ControlShard;
use flatbuffers::FlatBufferBuilder;
use perigee_master::Announcement;
use perigee_port::WakerList;
use perigee_schemas::Status;
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::master;
use perigee_shard::{CallReply, Environment, Message, Stream, at_most, within};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Longest that a call waits for the kernel to take records for an owner. One that is slower has
/// its connection broken and begins again.
const SEND_DEADLINE: Duration = Duration::from_secs(1);
/// Bytes of records that wait to be sent. An owner for which more of them wait begins again.
const WAITING_BYTES_MAX: usize = 24 << 20;

/// The followers of a shard, by segment.
pub(crate) struct Followers<E: Environment>(RefCell<BTreeMap<u32, Rc<Follower<E>>>>);

/// An owner that follows one segment.
pub(crate) struct Follower<E: Environment> {
    stream: E::Stream,
    waiting: RefCell<Vec<u8>>,
    /// Bytes that were ever to be sent, and those that the kernel has taken.
    noted_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
    is_sending: Cell<bool>,
    is_broken: Cell<bool>,
    /// Whether all that lies in the segment was told.
    is_whole: Cell<bool>,
    senders: WakerList,
}

impl<E: Environment> Default for Followers<E> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<E: Environment> Follower<E> {
    pub(crate) fn new(stream: &E::Stream) -> Rc<Self> {
        Rc::new(Self {
            stream: stream.clone(),
            waiting: RefCell::default(),
            noted_bytes: Cell::new(0),
            sent_bytes: Cell::new(0),
            // Nothing is sent before the answer that says that records follow.
            is_sending: Cell::new(true),
            is_broken: Cell::new(false),
            is_whole: Cell::new(false),
            senders: WakerList::default(),
        })
    }

    /// The answer has been sent: records follow.
    pub(crate) fn begin(&self) {
        self.is_sending.set(false);
        self.senders.raise();
    }

    fn note(&self, records: Vec<u8>) {
        self.noted_bytes.set(self.noted_bytes.get() + records.len() as u64);
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() + records.len() > WAITING_BYTES_MAX {
            drop(waiting);
            self.break_off();
        } else if waiting.is_empty() {
            *waiting = records;
        } else {
            waiting.extend_from_slice(&records);
        }
    }

    fn has_unsent(&self) -> bool {
        !self.is_broken.get() && self.sent_bytes.get() < self.noted_bytes.get()
    }

    /// Ends the connection: the owner begins again.
    pub(crate) fn break_off(&self) {
        if !self.is_broken.replace(true) {
            self.stream.shutdown();
        }
        self.senders.raise();
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// Resolves when the kernel has taken all that was noted before, or the connection is broken.
    /// One of those who wait sends for all of them. False if the owner was too slow.
    async fn flush(&self, environment: &E) -> bool {
        let target = self.noted_bytes.get();
        while self.sent_bytes.get() < target && !self.is_broken.get() {
            if !self.is_sending.get() {
                self.send(environment).await;
            } else if at_most(environment, SEND_DEADLINE, self.sent()).await.is_none() {
                self.break_off();
            }
        }
        self.sent_bytes.get() >= target
    }

    /// Tells that the snapshot has come to its end: what it does not have is gone.
    pub(crate) async fn tell_whole(&self, environment: &E) {
        self.flush(environment).await;
        while self.is_sending.get() && !self.is_broken.get() {
            self.sent().await;
        }
        self.is_whole.set(true);
        if !self.is_broken.get() {
            self.send(environment).await;
        }
    }

    /// Resolves when the send under way has ended.
    async fn sent(&self) {
        self.senders.wait_until(|| !self.is_sending.get() || self.is_broken.get()).await;
    }

    async fn send(&self, environment: &E) {
        let records = self.waiting.take();
        let bytes = records.len() as u64;
        let sending = Sending::begin(self);
        let mut message = Message::new();
        message.push_owned(frame(&records, self.is_whole.get()));
        let sent = self.stream.send_message(message);
        if within(environment, SEND_DEADLINE, &self.stream, sent).await.is_ok() {
            self.sent_bytes.set(self.sent_bytes.get() + bytes);
            sending.end();
        }
    }
}

impl<E: Environment> Followers<E> {
    /// An owner follows a segment; who did before is cut off.
    pub(crate) fn enter(&self, segment: u32, follower: &Rc<Follower<E>>) {
        let before = self.0.borrow_mut().insert(segment, follower.clone());
        if let Some(before) = before {
            before.break_off();
        }
    }

    /// An owner follows no more; false if another one has taken its place.
    pub(crate) fn leave(&self, segment: u32, follower: &Rc<Follower<E>>) -> bool {
        follower.break_off();
        let mut followers = self.0.borrow_mut();
        let is_it = followers.get(&segment).is_some_and(|known| Rc::ptr_eq(known, follower));
        if is_it {
            followers.remove(&segment);
        }
        is_it
    }

    fn get(&self, segment: u32) -> Option<Rc<Follower<E>>> {
        self.0.borrow().get(&segment).cloned()
    }

    fn has_unsent(&self) -> bool {
        self.0.borrow().values().any(|follower| follower.has_unsent())
    }

    fn with_unsent(&self) -> Vec<Rc<Follower<E>>> {
        let followers = self.0.borrow();
        followers.values().filter(|follower| follower.has_unsent()).cloned().collect()
    }
}

impl<E: Environment> ControlShard<E> {
    /// An owner begins to follow a segment: what is noted from now on is for it. Nothing is sent
    /// before [`Follower::begin`].
    pub(crate) fn let_follow(&self, segment: u32, stream: &E::Stream) -> Option<Rc<Follower<E>>> {
        self.collect_records();
        let mut keys = self.keys.borrow_mut();
        keys.follow(segment).then(|| {
            let follower = Follower::new(stream);
            self.followers.enter(segment, &follower);
            follower
        })
    }

    /// An owner follows no more.
    pub(crate) fn end_following(&self, segment: u32, follower: &Rc<Follower<E>>) {
        if self.followers.leave(segment, follower) {
            self.keys.borrow_mut().unfollow(segment);
        }
    }

    /// Takes over what an owner announces of its segment.
    pub(crate) fn announce(
        &self,
        segment: u32,
        announced: &Announcement<'_>,
    ) -> Result<usize, Status> {
        let adopted = self.keys.borrow_mut().announce(self.now_ms(), segment, announced)?;
        self.cells.adopted_objects.add(adopted as u64);
        if announced.is_last {
            self.count_rebuilding();
        }
        Ok(adopted)
    }

    /// Hands what the shard has noted to the followers; whether something is to be sent.
    pub(crate) fn collect_records(&self) -> bool {
        loop {
            let taken = self.keys.borrow_mut().take_records();
            let Some((segment, records)) = taken else {
                break;
            };
            match (self.followers.get(segment), records) {
                (Some(follower), Some(records)) => follower.note(records),
                (Some(follower), None) => follower.break_off(),
                (None, _) => self.keys.borrow_mut().unfollow(segment),
            }
        }
        self.followers.has_unsent()
    }

    /// Answers a call of another shard when owners have been told what came of it.
    pub(crate) fn reply_when_told<R: Send + 'static>(
        self: Rc<Self>,
        reply: CallReply<E, Option<R>>,
        result: R,
    ) {
        if !self.collect_records() {
            return reply.send(Some(result));
        }
        let environment = self.environment.clone();
        environment.spawn(async move {
            self.flush_records().await;
            reply.send(Some(result));
        });
    }

    /// Resolves when owners have been sent all that was noted before. An answer that leaves after
    /// it says what a master that is started after this one will find.
    pub(crate) async fn flush_records(&self) {
        if self.collect_records() {
            for follower in self.followers.with_unsent() {
                if !follower.flush(&self.environment).await {
                    self.cells.followers_cut.add(1);
                }
            }
        }
    }
}

fn frame(records: &[u8], is_whole: bool) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::with_capacity(records.len() + 64);
    let records = Some(builder.create_vector(records));
    let root = master::Records::create(&mut builder, &master::RecordsArgs { records, is_whole });
    builder.finish_minimal(root);
    let body = builder.finished_data();
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&FrameHeader::encode(MessageKind::Records, 0, body));
    frame.extend_from_slice(body);
    frame
}

/// A send under way. One that does not end leaves the stream within a message.
struct Sending<'a, E: Environment>(&'a Follower<E>);

impl<'a, E: Environment> Sending<'a, E> {
    fn begin(follower: &'a Follower<E>) -> Self {
        debug_assert!(!follower.is_sending.get(), "one sends at a time");
        follower.is_sending.set(true);
        Self(follower)
    }

    fn end(self) {
        self.0.is_sending.set(false);
    }
}

impl<E: Environment> Drop for Sending<'_, E> {
    fn drop(&mut self) {
        if self.0.is_sending.replace(false) {
            self.0.break_off();
        }
        self.0.senders.raise();
    }
}
