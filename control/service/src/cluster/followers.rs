//! Owners that follow what becomes of their segments: records go to them before the call that made
//! them is answered.
//! Invariant: the records of a segment are sent in the order in which they were noted, each once,
//! or the connection breaks.

use flatbuffers::FlatBufferBuilder;
use perigee_port::WakerList;
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::master;
use perigee_shard::{Environment, Message, Stream, at_most, within};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Longest that a call waits for the kernel to take records for an owner. One that is slower has
/// its connection broken and begins again.
const SEND_DEADLINE: Duration = Duration::from_secs(1);
/// Bytes of records that wait to be sent. An owner for which more of them wait begins again.
const WAITING_BYTES_MAX: usize = 24 << 20;

/// The followers of a shard.
pub(crate) struct Followers<E: Environment> {
    by_segment: RefCell<BTreeMap<u32, Rc<Follower<E>>>>,
    /// Those for which something may be unsent.
    unsent: RefCell<Vec<Rc<Follower<E>>>>,
}

/// An owner that follows one segment.
pub(crate) struct Follower<E: Environment> {
    stream: E::Stream,
    waiting: RefCell<Vec<u8>>,
    /// Bytes that were ever to be sent, and those that the kernel has taken.
    noted_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
    is_sending: Cell<bool>,
    is_broken: Cell<bool>,
    /// Whether all that lies in the segment was sent.
    is_whole: Cell<bool>,
    senders: WakerList,
}

/// What a connection follows once its last call is answered.
pub(crate) struct FollowedSegment<E: Environment>(RefCell<Option<(u32, Rc<Follower<E>>)>>);

impl<E: Environment> Default for FollowedSegment<E> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<E: Environment> FollowedSegment<E> {
    pub(crate) fn is_some(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(crate) fn set(&self, followed: Option<(u32, Rc<Follower<E>>)>) {
        debug_assert!(!self.is_some(), "a connection follows one segment");
        *self.0.borrow_mut() = followed;
    }

    pub(crate) fn take(&self) -> Option<(u32, Rc<Follower<E>>)> {
        self.0.take()
    }
}

impl<E: Environment> Default for Followers<E> {
    fn default() -> Self {
        Self { by_segment: RefCell::default(), unsent: RefCell::default() }
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
        debug_assert!(self.is_sending.get(), "records follow one answer");
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
    pub(super) async fn flush(&self, environment: &E) -> bool {
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
        let unsent = self.noted_bytes.get() - self.sent_bytes.get();
        debug_assert_eq!(bytes, unsent, "each record is sent once, in its order");
        let sending = Sending::begin(self);
        let mut message = Message::new();
        message.push_owned(frame(&records, self.is_whole.get()));
        let sent = self.stream.send_message(message);
        if within(environment, SEND_DEADLINE, &self.stream, sent).await.is_ok() {
            self.sent_bytes.set(self.sent_bytes.get() + bytes);
            let is_noted = self.sent_bytes.get() <= self.noted_bytes.get();
            debug_assert!(is_noted, "only what was noted is sent");
            sending.end();
        }
    }
}

impl<E: Environment> Followers<E> {
    /// An owner follows a segment; who did before is cut off.
    pub(crate) fn enter(&self, segment: u32, follower: &Rc<Follower<E>>) {
        let before = self.by_segment.borrow_mut().insert(segment, follower.clone());
        if let Some(before) = before {
            before.break_off();
        }
    }

    /// An owner follows no more; false if another one has taken its place.
    pub(crate) fn leave(&self, segment: u32, follower: &Rc<Follower<E>>) -> bool {
        follower.break_off();
        let mut followers = self.by_segment.borrow_mut();
        let is_it = followers.get(&segment).is_some_and(|known| Rc::ptr_eq(known, follower));
        if is_it {
            followers.remove(&segment);
        }
        is_it
    }

    /// A segment is gone, and who follows it has to look for what comes next.
    pub(crate) fn cut(&self, segment: u32) {
        let follower = self.by_segment.borrow_mut().remove(&segment);
        if let Some(follower) = follower {
            follower.break_off();
        }
    }

    /// Hands records of a segment to who follows it; false if no owner does.
    pub(super) fn note(&self, segment: u32, records: Option<Vec<u8>>) -> bool {
        let followers = self.by_segment.borrow();
        let Some(follower) = followers.get(&segment) else {
            return false;
        };
        match records {
            Some(records) => {
                if !follower.has_unsent() {
                    self.unsent.borrow_mut().push(follower.clone());
                }
                follower.note(records);
            }
            // There were too many.
            None => follower.break_off(),
        }
        true
    }

    /// Those for which something is unsent.
    pub(super) fn with_unsent(&self) -> Vec<Rc<Follower<E>>> {
        let mut unsent = self.unsent.borrow_mut();
        unsent.retain(|follower| follower.has_unsent());
        unsent.clone()
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
