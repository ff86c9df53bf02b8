//! A segment with its book, and the connections on which shards tell what becomes of it.
//! Invariant: one connection of each shard counts at a time, and only those of the book's round.

use super::book::SegmentBook;
use super::shard_place::ShardPlace;
use perigee_port::WakerList;
use perigee_schemas::master::Announces;
use perigee_shard::{Environment, Stream, at_most};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

/// A segment whose book is kept.
pub(super) struct Kept<E: Environment> {
    pub(super) book: RefCell<SegmentBook>,
    /// Connections on which shards tell, by number.
    streams: RefCell<BTreeMap<u64, E::Stream>>,
    covered: RefCell<Covered>,
    is_removed: Cell<bool>,
    /// Something has changed since the last look.
    is_notified: Cell<bool>,
    waiting: WakerList,
}

/// Which shards of the master tell in this round.
#[derive(Debug, Default)]
struct Covered {
    numbers: Vec<u32>,
    /// How many there are; 0 while that is not known.
    shards: u32,
    /// The master does not know what following is.
    is_refused: bool,
}

/// What a connection counts as.
pub(super) struct KeptSource {
    number: u64,
    shard: u32,
    round: u64,
}

impl<E: Environment> Kept<E> {
    pub(super) fn new(book: SegmentBook) -> Self {
        Self {
            book: RefCell::new(book),
            streams: RefCell::default(),
            covered: RefCell::default(),
            is_removed: Cell::new(false),
            is_notified: Cell::new(false),
            waiting: WakerList::default(),
        }
    }

    pub(super) fn round(&self) -> u64 {
        self.book.borrow().round()
    }

    /// Whether a shard still tells.
    pub(super) fn has_tellers(&self) -> bool {
        !self.streams.borrow().is_empty()
    }

    /// Begins the round of a life of the master: what is announced to it.
    pub(super) fn begin_round(&self, life: u64) -> Announces {
        let before = self.round();
        self.cut();
        self.covered.take();
        let announces = self.book.borrow_mut().prepare(life);
        debug_assert!(self.round() > before, "connections of the last round do not count");
        debug_assert!(!self.is_followed(), "no shard tells in a round that begins");
        announces
    }

    /// Wakes tasks that wait here, so that they look again.
    pub(super) fn notify(&self) {
        self.is_notified.set(true);
        self.waiting.raise();
    }

    /// Waits for `notify`, for `length` at most if given; whether it came.
    pub(super) async fn rest(&self, environment: &E, length: Option<Duration>) -> bool {
        let notified = self.waiting.wait_until(|| self.is_notified.get());
        match length {
            Some(length) => {
                at_most(environment, length, notified).await;
            }
            None => notified.await,
        }
        self.is_notified.replace(false)
    }

    /// Shards that tell in this round.
    pub(super) fn taken(&self) -> Vec<u32> {
        self.covered.borrow().numbers.clone()
    }

    /// Whether all of them do.
    pub(super) fn is_followed(&self) -> bool {
        let covered = self.covered.borrow();
        covered.shards > 0 && covered.numbers.len() >= covered.shards as usize
    }

    /// The master does not know what following is.
    pub(super) fn note_refusal(&self) {
        self.covered.borrow_mut().is_refused = true;
        self.waiting.raise();
    }

    /// Resolves when all shards tell, or none will.
    pub(super) async fn is_settled(&self) {
        let is_settled =
            || self.is_followed() || self.covered.borrow().is_refused || self.is_removed.get();
        self.waiting.wait_until(is_settled).await;
    }

    /// A shard begins to tell; `None` if another round has begun.
    pub(super) fn enter(
        &self,
        of: ShardPlace,
        (life, round): (u64, u64),
        stream: &E::Stream,
    ) -> Option<KeptSource> {
        if self.is_removed.get() || self.round() != round {
            return None;
        }
        let mut covered = self.covered.borrow_mut();
        covered.shards = of.shards;
        covered.numbers.push(of.shard);
        self.book.borrow_mut().begin(of, life);
        let mut streams = self.streams.borrow_mut();
        let number = streams.last_key_value().map_or(0, |(last, _)| last + 1);
        let is_new = streams.insert(number, stream.clone()).is_none();
        debug_assert!(is_new, "each connection has a number of its own");
        self.waiting.raise();
        Some(KeptSource { number, shard: of.shard, round })
    }

    /// A shard tells no more.
    pub(super) fn leave(&self, place: KeptSource) {
        let was_there = self.streams.borrow_mut().remove(&place.number).is_some();
        debug_assert!(was_there, "a connection ends once");
        if self.round() == place.round {
            self.book.borrow_mut().break_off(place.shard);
            self.covered.borrow_mut().numbers.retain(|other| *other != place.shard);
            self.notify();
        }
    }

    /// The segment is gone.
    pub(super) fn remove(&self) {
        self.is_removed.set(true);
        self.cut();
        self.notify();
    }

    pub(super) fn is_removed(&self) -> bool {
        self.is_removed.get()
    }

    fn cut(&self) {
        self.streams.borrow().values().for_each(Stream::shutdown);
    }
}
