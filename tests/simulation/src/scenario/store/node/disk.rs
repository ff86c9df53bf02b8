//! The disk of a node, with the production code of its owner: what is demoted is written, what is
//! there is announced, and what is void is made so.
//! Invariant: the folder stays from life to life, and with it the disk's name.

use super::disk_notify::DiskNotify;
use super::{Life, Node};
use crate::environment::SimulatedEnvironment;
use crate::random::Random;
use crate::scenario::store::contract::{Contract, Trials};
use crate::scenario::store::link::{CALL_DEADLINE, Link};
use crate::scenario::store::master::Master;
use crate::scenario::store::wire::{self, Mounting, Offer, disk as calls};
use crate::world::World;
use perigee_rpc::{CallError, DemotionBatch, EndedDemotion, FoundCopy, Tombstone};
use perigee_schemas::frame::MessageKind;
use perigee_schemas::{Identity, SegmentKind, Status};
use perigee_shard::Environment;
use perigee_ssd::{Answer, Disk, DiskOptions, FolderChoice, OpenedDisk, StorageKey, Unanswered};
use perigee_store::disks::{DiskCalls, DiskOwner, Keeper, OwnedDisk, SavedRound, Writer};
use perigee_store::ledger::VoidCopies;
use perigee_transfer::SegmentTable;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The smallest segments of a log, and so many that none is used again in a run.
const SEGMENT_BYTES: u32 = 16 << 20;
const SEGMENTS: u64 = 64;
/// Longest that opening or closing takes.
const OPEN_MAX: Duration = Duration::from_secs(60);
/// A thread may come late: owners ask less often than they could, because calls cost steps.
const LATE: Duration = Duration::from_millis(100);
const LATE_IN_PEACE: Duration = Duration::from_secs(5);
/// One in so many ends of demotions is not heard of, because the master dies.
const UNHEARD: u64 = 3;
/// Longest until it has given memory away that it counts on a disk for, and then until it dies.
const ACTED: Duration = Duration::from_secs(20);
const DEATH_MAX: Duration = Duration::from_secs(5);
/// Pause before a master that did not take the disk is asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// The process of a node as the code for its disk sees it.
struct Owner {
    world: Rc<World>,
    environment: SimulatedEnvironment,
    table: Arc<SegmentTable>,
    void: VoidCopies,
    signals: Rc<DiskNotify>,
    life: Rc<Life>,
    calls: Calls,
}

/// Calls to the master about a disk.
struct Calls {
    world: Rc<World>,
    contract: Rc<Contract>,
    master: Rc<Master>,
    random: Random,
    client: Identity,
    link: Link,
    signals: Rc<DiskNotify>,
    /// Checksums of what is on its way to the disk, by key and generation.
    taken: RefCell<BTreeMap<(String, u64), u32>>,
}

/// Ends the order of a disk's owner.
pub(super) struct Turn<'a>(&'a Cell<bool>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Node {
    /// Opens the disk, lends it, and has it filled and kept until the process ends.
    pub(super) async fn keep_disk(self: Rc<Self>, life: Rc<Life>) {
        let environment = self.world.environment(self.host);
        let Some(opened) = self.open_disk(&environment, &life).await else { return };
        let OpenedDisk { disk, spec, survivors } = opened;
        life.table.insert_disk(spec.id, disk.clone());
        life.signals.is_open.set(true);
        *life.signals.returning.borrow_mut() = Some(self.contract.begin_return());
        let offer = Offer {
            id: spec.id,
            bytes: spec.capacity_bytes,
            kind: SegmentKind::Disk,
            ..life.memory()
        };
        life.offers.borrow_mut().push(offer.clone());
        let link = self.link(&environment, life.client);
        while !self.is_stopped.get() && !self.mount_disk(&life, &link, &offer).await {
            self.world.sleep(PAUSE).await;
        }
        link.close();
        let owned = vec![OwnedDisk { id: spec.id, disk: disk.clone(), found: survivors }];
        let writer = Writer::new(self.owner(&environment, &life));
        let keeper = Keeper::new(self.owner(&environment, &life), owned);
        environment.spawn(async move { writer.run().await });
        let link = self.link(&environment, life.client);
        environment.spawn(self.clone().let_disk_return(life.clone(), link));
        drop(disk);
        keeper.run().await;
        life.signals.returning.take();
        if let Some(disk) = life.table.remove_disk(spec.id) {
            let _ = disk.close().within(&environment, OPEN_MAX).await;
        }
    }

    pub(super) async fn open_disk(
        &self,
        environment: &SimulatedEnvironment,
        life: &Life,
    ) -> Option<OpenedDisk> {
        let notices = life.signals.notices.clone();
        let options = DiskOptions {
            path: "/ssd".into(),
            folder: FolderChoice::FirstFree,
            capacity_bytes: SEGMENTS * u64::from(SEGMENT_BYTES),
            sharers: 1,
            segment_bytes: SEGMENT_BYTES,
            cluster: "simulation".to_owned(),
            // Some disks of a cluster are encrypted, and others are not.
            key: (self.host % 2 == 1).then(|| StorageKey::new([7; 32])),
            // As if the master had said so.
            promotes: Arc::new(AtomicBool::new(true)),
            on_event: Arc::new(move |_| {
                notices.fetch_add(1, Ordering::Relaxed);
            }),
        };
        let opening = Disk::open::<SimulatedEnvironment>(environment.mailbox(), options);
        let opened = opening.within(environment, OPEN_MAX).await;
        let is_open = matches!(opened, Ok(Ok(_)));
        // A process that stands still is late.
        let is_explained = opened.is_err() && !self.contract.is_fair();
        self.world.check(is_open || is_explained, || format!("A disk was not opened: {opened:?}"));
        opened.ok().and_then(Result::ok)
    }

    pub(super) async fn mount_disk(&self, life: &Life, link: &Link, offer: &Offer) -> bool {
        life.mounts.set(life.mounts.get() + 1);
        let offers = [offer.clone()];
        let mounting =
            Mounting { offers: &offers, number: life.mounts.get(), ..Mounting::default() };
        let body = wire::mount(life.client, &mounting);
        link.ask(MessageKind::Mount, &body).await.is_some()
    }

    fn owner(&self, environment: &SimulatedEnvironment, life: &Rc<Life>) -> Owner {
        Owner {
            world: self.world.clone(),
            environment: environment.clone(),
            table: life.table.clone(),
            void: life.void.clone(),
            signals: life.signals.clone(),
            life: life.clone(),
            calls: Calls {
                world: self.world.clone(),
                contract: self.contract.clone(),
                master: self.master.clone(),
                random: self.world.fork_random(),
                client: life.client,
                link: self.link(environment, life.client),
                signals: life.signals.clone(),
                taken: RefCell::default(),
            },
        }
    }
}

/// Waits until no objects are on their way to a disk, and none is announced.
pub(super) async fn turn<'a>(world: &Rc<World>, signals: &'a Rc<DiskNotify>) -> Turn<'a> {
    while signals.is_taken.get() {
        let waits = signals.clone();
        world.until(move || !waits.is_taken.get()).await;
    }
    signals.is_taken.set(true);
    Turn(&signals.is_taken)
}

impl DiskOwner for Owner {
    type Master = Calls;
    type Order<'a> = Turn<'a>;

    fn master(&self) -> &Calls {
        &self.calls
    }

    fn table(&self) -> &SegmentTable {
        &self.table
    }

    fn mounts(&self) -> u64 {
        self.signals.mounts.get()
    }

    fn void(&self) -> &VoidCopies {
        &self.void
    }

    fn withdraw(&self, disk: Identity) {
        let is_explained = !self.calls.contract.is_fair() || self.signals.must_leave.get();
        self.world.check(is_explained, || format!("Disk {disk} was taken out of use"));
        if self.table.disk(disk).is_some() {
            // Until it is back and has said what it has.
            *self.signals.returning.borrow_mut() = Some(self.calls.contract.begin_return());
            self.life.withdraw_disk(disk);
        }
    }

    fn must_leave(&self, _: Identity) -> bool {
        self.signals.must_leave.get()
    }

    fn note_left(&self, _: Identity) {
        self.signals.must_leave.set(false);
        self.signals.left.replace(self.signals.leaving.take());
    }

    fn take_returned(&self) -> Vec<OwnedDisk> {
        self.signals.returned.take()
    }

    fn leaves(&self) -> bool {
        false
    }

    fn note_saved(&self, _: SavedRound) {}

    async fn in_order(&self) -> Turn<'_> {
        turn(&self.world, &self.signals).await
    }

    fn now(&self) -> Duration {
        self.environment.now()
    }

    async fn sleep(&self, length: Duration) {
        self.world.sleep(length).await;
    }

    async fn notified(&self, heard: &mut u64, pause: Duration) -> bool {
        let least = match self.calls.contract.is_in_peace() {
            true => LATE_IN_PEACE,
            false => LATE,
        };
        let (signals, before) = (self.signals.clone(), *heard);
        let is_notified =
            move || signals.is_over.get() || signals.notices.load(Ordering::Relaxed) != before;
        self.world.until_at_most(pause.max(least), is_notified).await;
        *heard = self.signals.notices.load(Ordering::Relaxed);
        let is_over = self.signals.is_over.get();
        if is_over {
            self.calls.link.close();
        }
        !is_over
    }

    async fn answered<T: Send + 'static>(
        &self,
        answer: Answer<T>,
        limit: Duration,
    ) -> Result<T, Unanswered> {
        answer.within(&self.environment, limit).await
    }
}

impl Calls {
    /// An answer that can be read, as every answer of the master must be.
    async fn ask<T>(
        &self,
        kind: MessageKind,
        body: &[u8],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<T, CallError> {
        let unanswered = || CallError::Deadline(CALL_DEADLINE);
        let answer = self.link.ask(kind, body).await.ok_or_else(unanswered)?;
        read(&answer.body).ok_or_else(|| {
            self.world.violate(format!("The master's answer to {kind:?} cannot be read"));
            unanswered()
        })
    }

    /// Keeps an answer back until the master has acted on it and has died; false if it does not.
    async fn is_lost_with_the_master(&self) -> bool {
        let is_calm = matches!(self.contract.trials(), Trials::Calm | Trials::All);
        if is_calm || self.contract.is_in_peace() {
            return false;
        }
        let (epoch, before) = (self.master.epoch(), self.master.evicted_bytes());
        let master = self.master.clone();
        self.world.until_at_most(ACTED, move || master.evicted_bytes() != before).await;
        self.master.must_end();
        let master = self.master.clone();
        self.world.until_at_most(DEATH_MAX, move || master.epoch() != epoch).await;
        self.master.epoch() != epoch
    }

    async fn ask_one(&self, kind: MessageKind, body: &[u8]) -> Result<Status, CallError> {
        self.ask(kind, body, wire::status).await
    }
}

impl DiskCalls for Calls {
    async fn fetch_demotions(&self, limit: u32, leaves: bool) -> Result<DemotionBatch, CallError> {
        let body = calls::fetch_demotions(self.client, limit, leaves);
        let decode = |body: &[u8]| DemotionBatch::decode(body).ok();
        let batch = self.ask(MessageKind::FetchDemotions, &body, decode).await?;
        let named = batch.keys.iter().zip(&batch.sources).zip(&batch.checksum);
        let named = named.map(|((key, at), checksum)| ((key.clone(), at.generation), *checksum));
        self.taken.borrow_mut().extend(named);
        Ok(batch)
    }

    async fn end_demotions(&self, ended: &[EndedDemotion<'_>]) -> Result<Vec<Status>, CallError> {
        let body = calls::end_demotions(self.client, ended);
        let read = |body: &[u8]| calls::statuses(body, ended.len());
        let verdicts = self.ask(MessageKind::EndDemotions, &body, read).await?;
        let mut is_counted_on = false;
        for (one, verdict) in ended.iter().zip(&verdicts) {
            let taken = self.taken.borrow_mut().remove(&(one.key.to_owned(), one.generation));
            let is_there = one.status == Status::Ok && *verdict == Status::Ok;
            is_counted_on |= is_there;
            if let Some(checksum) = taken.filter(|_| is_there) {
                self.contract.note_demoted(one.key, checksum);
            }
        }
        let is_unheard = is_counted_on && self.random.one_in(UNHEARD);
        match is_unheard && self.is_lost_with_the_master().await {
            true => Err(CallError::Deadline(CALL_DEADLINE)),
            false => Ok(verdicts),
        }
    }

    async fn fetch_tombstones(
        &self,
        disk: Identity,
        limit: u32,
    ) -> Result<Result<Vec<Tombstone>, Status>, CallError> {
        let body = calls::fetch_tombstones(self.client, disk, limit);
        self.ask(MessageKind::FetchTombstones, &body, calls::tombstones).await
    }

    async fn confirm_tombstones(
        &self,
        disk: Identity,
        numbers: &[u64],
    ) -> Result<Status, CallError> {
        let body = calls::confirm_tombstones(self.client, disk, numbers);
        self.ask_one(MessageKind::ConfirmTombstones, &body).await
    }

    async fn announce_copies(
        &self,
        disk: Identity,
        copies: &[FoundCopy<'_>],
        is_last: bool,
    ) -> Result<Vec<Status>, CallError> {
        let body = calls::announce_copies(self.client, disk, copies, is_last);
        let read = |body: &[u8]| calls::statuses(body, copies.len());
        let verdicts = self.ask(MessageKind::AnnounceCopies, &body, read).await?;
        if is_last {
            self.signals.returning.take();
        }
        Ok(verdicts)
    }

    async fn tell_recycled(&self, disk: Identity, oldest: u32) -> Result<Status, CallError> {
        let body = calls::recycled(self.client, disk, oldest);
        self.ask_one(MessageKind::Recycled, &body).await
    }

    async fn unmount_disk(&self, disk: Identity) -> Result<(), CallError> {
        let body = wire::unmount(self.client, disk, 0);
        self.ask_one(MessageKind::Unmount, &body).await.map(drop)
    }
}
