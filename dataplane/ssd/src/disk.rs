//! A disk in use: the log of one folder with its I/O, behind a door for any thread or shard.
//!
//! All of a disk runs on one shard; the door posts to it and hands out answers. The invariant: a
//! disk that is slow, full or broken keeps no shard and no caller waiting beyond a bound, and what
//! it answers is what the log has decided.

mod batch_writer;
mod change_notify;
mod command;
mod damage_log;
mod door;
mod driver;
mod error;
mod event;
mod examine;
mod file_use;
mod flow;
mod folder;
mod free_folder;
mod health;
mod lister;
mod listing;
mod open;
mod options;
mod read_call;
mod reader;
mod registered_stages;
mod scanning;
mod segment_writer;
mod shared_reads;
mod shared_room;
mod span;
mod status;
mod tombstone_queue;
mod write_queue;
mod writer;

pub use command::{CopyFinding, DiskPiece, ExaminedCopy, Outgoing, VoidCopy};
pub use error::{ListError, OpenError, ReadError, WriteError};
pub use event::{DiskEvent, OnDiskEvent};
pub use health::DiskState;
pub use listing::{ListCursor, ListedPage};
pub use options::{DiskOptions, DiskSpec, FolderChoice};
pub use status::{DiskCounters, DiskStatus};

use crate::answer::{Answer, answer};
use crate::recovery::Survivor;
use crate::stage::{StagePool, StagedBytes};
use command::DiskCommand;
use door::Door;
use perigee_memory::HostBuffer;
use perigee_schemas::disk_address::DiskAddress;
use perigee_shard::{Environment, Post};
use shared_reads::ReadSource;
use status::DiskCells;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A disk that was opened, and what was found on it.
#[derive(Debug)]
pub struct OpenedDisk {
    /// The door.
    pub disk: Disk,
    /// What it is.
    pub spec: DiskSpec,
    /// Objects that are there, in the order of their places.
    pub survivors: Vec<Survivor>,
}

/// The door of a disk. Clones are the same door; the disk is closed when the last one is dropped.
#[derive(Clone)]
pub struct Disk {
    door: Arc<dyn Door>,
    cells: Arc<DiskCells>,
    stages: Arc<StagePool>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Disk").field("state", &self.cells.state()).finish_non_exhaustive()
    }
}

impl Disk {
    /// Opens the next folder in a path that no other process has, or makes one, on the shard of
    /// `mailbox`.
    pub fn open<E: Environment>(
        mailbox: &E::Mailbox,
        options: DiskOptions,
    ) -> Answer<Result<OpenedDisk, OpenError>> {
        let (promise, opened) = answer();
        mailbox.post(Box::new(move |environment: &E| {
            let own = environment.clone();
            environment.spawn(async move {
                let opened = open::open(&own, options).await;
                promise.give(opened.map(|((door, cells, stages), spec, survivors)| OpenedDisk {
                    disk: Disk { door, cells, stages },
                    spec,
                    survivors,
                }));
            });
        }));
        opened
    }

    /// The folders in a path of these options that no process has, and that have what is of their
    /// cluster and key, on the shard of `mailbox`. Nothing there is changed.
    pub fn free_folders<E: Environment>(
        mailbox: &E::Mailbox,
        options: DiskOptions,
    ) -> Answer<Result<Vec<PathBuf>, OpenError>> {
        let (promise, found) = answer();
        mailbox.post(Box::new(move |environment: &E| {
            let own = environment.clone();
            environment.spawn(async move {
                promise.give(free_folder::free_folders(&own, &options).await);
            });
        }));
        found
    }

    /// Whether bytes can be written below a path and read again, on the shard of `mailbox`. Nothing
    /// stays there.
    pub fn try_path<E: Environment>(
        mailbox: &E::Mailbox,
        path: PathBuf,
    ) -> Answer<Result<(), OpenError>> {
        let (promise, tried) = answer();
        mailbox.post(Box::new(move |environment: &E| {
            let own = environment.clone();
            environment.spawn(async move { promise.give(open::try_path(&own, &path).await) });
        }));
        tried
    }

    /// Writes objects. The answer comes when all are decided, one result for each in their order:
    /// an object with an address may be announced.
    pub fn write(&self, objects: Vec<Outgoing>) -> Answer<Vec<Result<DiskAddress, WriteError>>> {
        let (promise, written) = answer();
        self.door.post(DiskCommand::Write(objects, promise));
        written
    }

    /// Makes copies void. The answer comes when no loss of power can bring them back.
    pub fn bury(&self, copies: Vec<VoidCopy>) -> Answer<Result<(), WriteError>> {
        let (promise, buried) = answer();
        self.door.post(DiskCommand::Bury(copies, promise));
        buried
    }

    /// Reads bytes of images, all at once. One result for each piece, in their order. What another
    /// call reads at the same time is read once.
    pub fn read(&self, pieces: Vec<DiskPiece>) -> Answer<Vec<Result<StagedBytes, ReadError>>> {
        self.read_from(pieces, ReadSource::UnderWay)
    }

    /// The same for objects that are to be kept in memory: what was read lately is not read again.
    pub fn read_for_memory(
        &self,
        pieces: Vec<DiskPiece>,
    ) -> Answer<Vec<Result<StagedBytes, ReadError>>> {
        self.read_from(pieces, ReadSource::Lately)
    }

    /// The same where what was read lately has turned out to be damaged.
    pub fn reread_for_memory(
        &self,
        pieces: Vec<DiskPiece>,
    ) -> Answer<Vec<Result<StagedBytes, ReadError>>> {
        self.read_from(pieces, ReadSource::Disk)
    }

    fn read_from(
        &self,
        pieces: Vec<DiskPiece>,
        source: ReadSource,
    ) -> Answer<Vec<Result<StagedBytes, ReadError>>> {
        let (promise, read) = answer();
        self.door.post(DiskCommand::Read(pieces, source, promise));
        read
    }

    /// Looks at copies that readers could not read, one after the other. What is damaged on the
    /// disk is counted and logged.
    pub fn examine(&self, copies: Vec<ExaminedCopy>) -> Answer<Vec<CopyFinding>> {
        let (promise, examined) = answer();
        self.door.post(DiskCommand::Examine(copies, promise));
        examined
    }

    /// What the disk has, in pages, newest first; the first one without a cursor, which ends any
    /// other listing. Copies that are announced after its begin are in no page, and those that are
    /// made void after it in none that comes later.
    pub fn list(&self, from: Option<ListCursor>) -> Answer<Result<ListedPage, ListError>> {
        let (promise, listed) = answer();
        self.door.post(DiskCommand::List(from, promise));
        listed
    }

    /// Makes all copies void, those that are on their way too.
    pub fn remove_all(&self) -> Answer<Result<(), WriteError>> {
        let (promise, removed) = answer();
        self.door.post(DiskCommand::RemoveAll(promise));
        removed
    }

    /// Ends the disk: its open segment is sealed, so that the next start is quick, and the folder
    /// is free for other processes.
    pub fn close(&self) -> Answer<()> {
        let (promise, closed) = answer();
        self.door.post(DiskCommand::Close(Some(promise)));
        closed
    }

    /// The memory that it reads into.
    pub fn stage_memory(&self) -> &Arc<HostBuffer> {
        self.stages.memory()
    }

    /// The first segment that can be read.
    pub fn oldest(&self) -> u32 {
        self.cells.oldest()
    }

    /// How it does.
    pub fn status(&self) -> DiskStatus {
        self.cells.status()
    }
}
