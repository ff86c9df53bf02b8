//! A disk on its shard: what its tasks share.
//! Invariant: each operation on a file is counted from its begin to its end, also when nothing
//! waits for it any more.

use super::change_notify::ChangeNotify;
use super::command::DiskCommand;
use super::damage_log::DamageLog;
use super::error::WriteError;
use super::event::{DiskEvent, OnDiskEvent};
use super::file_use::FileUse;
use super::flow::Flow;
use super::folder::{DiskFolder, FileOf};
use super::health::HealthRecord;
use super::listing::Listing;
use super::registered_stages::RegisteredStages;
use super::shared_reads::SharedReads;
use super::status::{DiskCells, count};
use super::tombstone_queue::TombstoneQueue;
use super::write_queue::WriteQueue;
use crate::answer::AnswerPromise;
use crate::cipher::{LogKey, SegmentCipher};
use crate::format::BlockRoom;
use crate::limits::{BLOCK_BYTES, FORGED_PAUSE, STALL_LOOK};
use crate::log::Log;
use crate::stage::{PooledStage, StagePool};
use perigee_shard::Environment;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) struct DiskDriver<E: Environment> {
    pub(super) environment: E,
    pub(super) folder: Rc<DiskFolder<E>>,
    pub(super) log: RefCell<Log>,
    pub(super) key: Option<LogKey>,
    pub(super) stages: Arc<StagePool>,
    registered: RegisteredStages,
    pub(super) flow: Flow,
    pub(super) shared: SharedReads,
    pub(super) promotes: Arc<AtomicBool>,
    /// Rung when anything that the writer waits for has changed.
    pub(super) changes: ChangeNotify,
    pub(super) queue: RefCell<WriteQueue>,
    pub(super) tombstones: RefCell<TombstoneQueue>,
    pub(super) removals: RefCell<Vec<super::command::VoidPromise>>,
    pub(super) closing: RefCell<Option<Vec<AnswerPromise<()>>>>,
    pub(super) batches: Cell<usize>,
    /// Bytes of batches that are not written yet.
    pub(super) unwritten: Cell<u64>,
    pub(super) listing: RefCell<Option<Listing>>,
    pub(super) listed: Cell<u64>,
    pub(super) cells: Arc<DiskCells>,
    health: RefCell<HealthRecord>,
    on_event: OnDiskEvent,
    /// When each operation under way began.
    under_way: RefCell<BTreeMap<u64, (FileUse, Duration)>>,
    numbered: Cell<u64>,
    /// When it was said last that blocks do not verify.
    said_forged: Cell<Option<Duration>>,
    pub(super) damage: DamageLog,
    has_ended: Cell<bool>,
    /// When the file system refused a file that it seemed to have room for.
    pub(super) refused_at: Cell<Option<Duration>>,
}

impl<E: Environment> DiskDriver<E> {
    pub(super) fn new(
        environment: &E,
        folder: Rc<DiskFolder<E>>,
        (log, key): (Log, Option<LogKey>),
        stages: Arc<StagePool>,
        (on_event, promotes): (OnDiskEvent, Arc<AtomicBool>),
    ) -> Rc<Self> {
        let driver = Rc::new(Self {
            environment: environment.clone(),
            registered: RegisteredStages::of(&folder.path),
            folder,
            log: RefCell::new(log),
            key,
            stages,
            flow: Flow::default(),
            shared: SharedReads::default(),
            promotes,
            changes: ChangeNotify::default(),
            queue: RefCell::default(),
            tombstones: RefCell::default(),
            removals: RefCell::default(),
            closing: RefCell::default(),
            batches: Cell::new(0),
            unwritten: Cell::new(0),
            listing: RefCell::default(),
            listed: Cell::new(0),
            cells: Arc::default(),
            health: RefCell::default(),
            on_event,
            under_way: RefCell::default(),
            numbered: Cell::new(0),
            said_forged: Cell::new(None),
            damage: DamageLog::default(),
            has_ended: Cell::new(false),
            refused_at: Cell::new(None),
        });
        driver.cells.set_oldest(driver.log.borrow().oldest());
        driver.publish();
        driver
    }

    pub(super) fn now(&self) -> Duration {
        self.environment.now()
    }

    /// Takes what the door asks.
    pub(super) fn take(self: &Rc<Self>, command: DiskCommand) {
        match command {
            DiskCommand::Write(objects, promise) => self.take_write(objects, promise),
            DiskCommand::Bury(copies, promise) => self.take_burial(&copies, promise),
            DiskCommand::Read(pieces, source, promise) => {
                return self.take_read(pieces, source, promise);
            }
            DiskCommand::Examine(copies, promise) => {
                return self.take_examination(copies, promise);
            }
            DiskCommand::List(from, promise) => return self.take_list(from, promise),
            DiskCommand::RemoveAll(promise) if self.is_closing() => {
                promise.give(Err(WriteError::Log(crate::log::LogError::Closed)));
            }
            DiskCommand::RemoveAll(promise) => self.removals.borrow_mut().push(promise),
            DiskCommand::Close(promise) => {
                self.closing.borrow_mut().get_or_insert_default().extend(promise);
            }
        }
        self.changes.notify();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.borrow().is_some()
    }

    /// Makes operations on a stage as cheap as can be.
    pub(super) fn register(&self, stage: &PooledStage) {
        self.registered.cover(&self.folder.files, &self.stages, stage);
    }

    /// Carries out an operation on a file, counted.
    pub(super) async fn timed<T>(
        &self,
        work: FileUse,
        operation: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let (begun, number) = (self.now(), self.numbered.get());
        self.numbered.set(number + 1);
        self.under_way.borrow_mut().insert(number, (work, begun));
        let result = operation.await;
        let was_counted = self.under_way.borrow_mut().remove(&number).is_some();
        debug_assert!(was_counted, "an operation is under way until it ends");
        self.cells.note_time(work, self.now().saturating_sub(begun));
        if let Err(error) = &result {
            self.note_error(work, error);
        }
        result
    }

    pub(super) fn note_error(&self, work: FileUse, error: &io::Error) {
        count(&self.cells.counters.errors, 1);
        let now = self.now();
        tracing::warn!(disk = %self.folder.path.display(), %error, ?work, "The disk fails");
        match work {
            FileUse::Read => self.health.borrow_mut().note_read_error(now, error),
            FileUse::Write => self.health.borrow_mut().note_write_error(now, error),
        }
        self.publish();
    }

    /// Blocks do not verify under their key. Peers may ask for any, so it is said seldom.
    pub(super) fn note_forged(&self, slot: u32, blocks: usize) {
        count(&self.cells.counters.errors, blocks as u64);
        let (now, said) = (self.now(), self.said_forged.get());
        if said.is_some_and(|said| now.saturating_sub(said) < FORGED_PAUSE) {
            return;
        }
        self.said_forged.set(Some(now));
        tracing::warn!(
            file = %self.folder.slot_path(slot).display(),
            blocks,
            "Blocks do not verify under their key: the disk is damaged, or was changed"
        );
    }

    pub(super) fn tell(&self, event: DiskEvent) {
        (self.on_event)(event);
    }

    pub(super) fn note_written(&self) {
        self.health.borrow_mut().note_write();
        self.publish();
    }

    pub(super) fn note_log_end(&self, reason: &str) {
        self.health.borrow_mut().note_log_end(reason);
        self.publish();
    }

    pub(super) fn takes_reads(&self) -> bool {
        self.health.borrow().takes_reads()
    }

    /// The error of writes at present, if they are refused.
    pub(super) fn refusal(&self) -> Option<WriteError> {
        let takes_writes = self.health.borrow().takes_writes(self.now());
        (!takes_writes).then(|| WriteError::State(self.cells.state()))
    }

    /// Tells what has changed: the state, and the sizes that any thread can see.
    pub(super) fn publish(&self) {
        let (state, must_reopen) = {
            let health = self.health.borrow();
            (health.state(), health.must_reopen())
        };
        self.cells.must_reopen.store(must_reopen, Ordering::Relaxed);
        if self.cells.set_state(state.clone()) {
            self.tell(DiskEvent::State(state));
        }
        let log = self.log.borrow();
        let segment_bytes = u64::from(log.superblock().segment_bytes);
        let (capacity, used) = (u64::from(log.files_max()), log.live_segments() as u64);
        self.cells.capacity_bytes.store(capacity * segment_bytes, Ordering::Relaxed);
        self.cells.used_bytes.store(used * segment_bytes, Ordering::Relaxed);
    }

    /// Copies of older segments than the oldest one have gone for good.
    pub(super) fn tell_recycled(&self) {
        self.publish();
        let oldest = self.log.borrow().oldest();
        self.cells.set_oldest(oldest);
        self.tell(DiskEvent::Recycled { oldest });
    }

    /// Looks now and then whether an operation hangs, until the disk has ended.
    pub(super) async fn watch(self: Rc<Self>) {
        let mut looked = self.now();
        while !self.has_ended.get() {
            self.environment.sleep(STALL_LOOK).await;
            let now = self.now();
            self.forgive(now.saturating_sub(looked + STALL_LOOK));
            looked = now;
            let (mut all, mut reads) = (Duration::ZERO, Duration::ZERO);
            for (work, begun) in self.under_way.borrow().values() {
                let length = now.saturating_sub(*begun);
                all = all.max(length);
                reads = if *work == FileUse::Read { reads.max(length) } else { reads };
            }
            self.health.borrow_mut().note_stall(all, reads);
            self.watch_listing();
            self.shared.forget_old(now);
            self.publish();
        }
    }

    /// While the process stood still it took no answer of the disk, which is not the disk's fault.
    fn forgive(&self, late: Duration) {
        if late < STALL_LOOK {
            return;
        }
        for (_, begun) in self.under_way.borrow_mut().values_mut() {
            *begun += late;
        }
    }

    pub(super) fn end(&self) {
        debug_assert!(!self.has_ended.get(), "a disk ends once");
        let left = (self.batches.get(), self.unwritten.get());
        debug_assert_eq!(left, (0, 0), "what was begun to be written has ended");
        self.has_ended.set(true);
    }

    /// The file of a slot that has one.
    pub(super) fn file(&self, slot: u32) -> Option<FileOf<E>> {
        self.folder.slots.borrow().get(&slot).cloned()
    }

    /// What blocks of the disk have of its log.
    pub(super) fn room(&self) -> BlockRoom {
        self.log.borrow().superblock().room()
    }

    /// What encrypts the blocks of a segment that is held; none if the disk is not encrypted.
    pub(super) fn cipher(&self, sequence: u32) -> io::Result<Option<SegmentCipher>> {
        let Some(key) = &self.key else { return Ok(None) };
        // Never written as it is for want of a key.
        let salt = self.log.borrow().salt(sequence).ok_or(io::ErrorKind::NotFound)?;
        Ok(Some(key.segment(sequence, salt)))
    }

    /// Writes whole blocks of a segment's log at an offset of its file.
    pub(super) async fn put_log(
        &self,
        file: &FileOf<E>,
        (sequence, offset): (u32, u32),
        log: &[u8],
    ) -> io::Result<()> {
        match self.cipher(sequence)? {
            None => self.put(file, log, offset).await,
            Some(cipher) => {
                let blocks = cipher.encrypted(offset / BLOCK_BYTES, log);
                self.put(file, &blocks, offset).await
            }
        }
    }

    /// Writes bytes of our own as they are, whole blocks.
    pub(super) async fn put(&self, file: &FileOf<E>, bytes: &[u8], offset: u32) -> io::Result<()> {
        let writing = self.folder.write(&self.stages, file, bytes, offset);
        self.timed(FileUse::Write, writing).await?;
        count(&self.cells.counters.written_bytes, bytes.len() as u64);
        Ok(())
    }
}
