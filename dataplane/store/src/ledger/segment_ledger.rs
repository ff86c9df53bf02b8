//! The books of a process and the tasks that keep them.
//! Invariant: one task dials for a segment at a time.

use super::book::SegmentBook;
use super::following::{Dialled, Dialler, Source};
use super::kept::Kept;
use super::void_copies::VoidCopies;
use perigee_memory::journal::JournalError;
use perigee_schemas::Identity;
use perigee_schemas::master::Announces;
use perigee_shard::Environment;
use perigee_transfer::SegmentTable;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// First pause before a master that does not answer, or does not know the segment, is asked
/// again...
const RETRY: Duration = Duration::from_millis(20);
/// ... and the longest one.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Connections in a row that lead to a shard that was asked already, after which there is a pause.
const TAKEN_MAX: u32 = 256;
/// How long the last words of a master that is gone may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Pause between two looks whether they have come.
const LAST_WORDS_LOOK: Duration = Duration::from_millis(5);

/// What the next master must know before it mounts the segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// What is announced of each segment that has a book.
    pub announces: Vec<(Identity, Announces)>,
    /// Largest generation that was heard of.
    pub generation: u64,
}

/// The books of a process and the tasks that keep them, all on one shard.
pub struct SegmentLedger<E: Environment> {
    pub(super) environment: E,
    dialler: Dialler<E>,
    /// Called when a master has broken off.
    is_lost: Box<dyn Fn()>,
    books: RefCell<BTreeMap<Identity, Rc<Kept<E>>>>,
    /// Largest generation of segments that are gone.
    generation: Cell<u64>,
    void: VoidCopies,
    segments: Arc<SegmentTable>,
    pub(super) is_stopped: Cell<bool>,
}

impl<E: Environment> SegmentLedger<E> {
    /// A ledger for segments of this table. `addresses` tells where the master is, `is_lost` is
    /// called when it has broken off, and what it says of copies on disks is kept in `void`.
    pub fn new(
        environment: &E,
        client: Identity,
        addresses: impl Fn() -> Vec<SocketAddr> + 'static,
        is_lost: impl Fn() + 'static,
        void: &VoidCopies,
        segments: &Arc<SegmentTable>,
    ) -> Rc<Self> {
        Rc::new(Self {
            environment: environment.clone(),
            dialler: Dialler::new(environment, client, addresses),
            is_lost: Box::new(is_lost),
            books: RefCell::default(),
            generation: Cell::new(0),
            void: void.clone(),
            segments: segments.clone(),
            is_stopped: Cell::new(false),
        })
    }

    /// Keeps the book of a segment from now on. It is to be mounted with [`Announces::Space`].
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn add(self: &Rc<Self>, segment: Identity, bytes: u64) -> Result<(), JournalError> {
        let book = SegmentBook::new(segment, bytes)?.with_void(&self.void);
        let kept = Rc::new(Kept::new(book.in_table(&self.segments)));
        let before = self.books.borrow_mut().insert(segment, kept.clone());
        debug_assert!(before.is_none(), "one task dials for a segment");
        let ledger = self.clone();
        self.environment.spawn(async move { ledger.keep(&kept).await });
        Ok(())
    }

    /// A segment is gone.
    pub fn remove(&self, segment: Identity) {
        if let Some(kept) = self.books.borrow_mut().remove(&segment) {
            kept.remove();
            let generation = kept.book.borrow().generation();
            self.generation.set(self.generation.get().max(generation));
        }
    }

    /// Ends all tasks.
    pub fn stop(&self) {
        self.is_stopped.set(true);
        self.books.borrow().values().for_each(|kept| kept.remove());
    }

    /// Bytes of all journals.
    pub fn journal_bytes(&self) -> u64 {
        self.books.borrow().values().map(|kept| kept.book.borrow().journal_bytes()).sum()
    }

    /// Objects that the next master would hear of.
    pub fn objects(&self) -> usize {
        self.books.borrow().values().map(|kept| kept.book.borrow().objects()).sum()
    }

    /// To be called before the segments are mounted again in a life of the master. Waits for the
    /// last words of the life before.
    pub async fn prepare(&self, life: u64) -> Prepared {
        let books: Vec<Rc<Kept<E>>> = self.books.borrow().values().cloned().collect();
        let end = self.environment.now() + LAST_WORDS;
        while books.iter().any(|kept| kept.has_tellers()) && self.environment.now() < end {
            self.environment.sleep(LAST_WORDS_LOOK).await;
        }
        let mut prepared = Prepared { generation: self.generation.get(), ..Prepared::default() };
        for kept in books {
            let announces = kept.begin_round(life);
            let book = kept.book.borrow();
            prepared.announces.push((book.id, announces));
            prepared.generation = prepared.generation.max(book.generation());
        }
        prepared
    }

    /// The segments have been mounted: shards that did not know them are asked again.
    pub fn mounted(&self) {
        self.books.borrow().values().for_each(|kept| kept.notify());
    }

    /// Resolves when each shard tells what becomes of a segment, or none will.
    pub async fn followed(&self, segment: Identity) {
        let kept = self.books.borrow().get(&segment).cloned();
        if let Some(kept) = kept {
            kept.notify();
            kept.is_settled().await;
        }
    }

    fn is_over(&self, kept: &Kept<E>) -> bool {
        self.is_stopped.get() || kept.is_removed()
    }

    /// Follows each shard of the master, in each round of the book.
    async fn keep(self: &Rc<Self>, kept: &Rc<Kept<E>>) {
        let (mut pause, mut taken) = (RETRY, 0);
        while !self.is_over(kept) {
            if kept.is_followed() {
                kept.rest(&self.environment, None).await;
                continue;
            }
            match self.dialler.dial(kept).await {
                Dialled::Source(source) => {
                    (pause, taken) = (RETRY, 0);
                    self.follow(kept, source);
                }
                Dialled::Taken if taken < TAKEN_MAX => taken += 1,
                _ => {
                    taken = 0;
                    let is_notified = kept.rest(&self.environment, Some(pause)).await;
                    pause = if is_notified { RETRY } else { RETRY_MAX.min(2 * pause) };
                }
            }
        }
    }

    /// Keeps what a shard tells from now on.
    fn follow(self: &Rc<Self>, kept: &Rc<Kept<E>>, source: Source<E>) {
        let Some(place) = kept.enter(source.of, (source.life, source.round), source.stream())
        else {
            return source.cut();
        };
        let (ledger, kept) = (self.clone(), kept.clone());
        self.environment.spawn(async move {
            source.read(&ledger.environment, &kept).await;
            kept.leave(place);
            if !ledger.is_over(&kept) {
                (ledger.is_lost)();
            }
        });
    }
}

impl<E: Environment> std::fmt::Debug for SegmentLedger<E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SegmentLedger")
            .field("dialler", &self.dialler)
            .finish_non_exhaustive()
    }
}
