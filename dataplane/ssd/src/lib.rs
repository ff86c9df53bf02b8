//! The log of objects on a disk: its format, what is written and when, recovery, and its I/O.
//!
//! [`log`] and [`recovery`] decide and do no I/O: the log says what to write where, and gets what
//! came of it, so that tests play every order of completions and every loss of power. [`Disk`] does
//! what they say, on one shard. The invariant: what is read is what was written under that address
//! and generation, or a miss, and what was removed does not come back.

#![deny(unsafe_code)]

mod answer;
mod cipher;
mod disk;
pub mod format;
mod free_ranges;
pub mod image;
pub mod limits;
pub mod log;
#[cfg(test)]
mod platter;
pub mod recovery;
mod source;
mod stage;
mod storage_key;

pub use answer::{Answer, Unanswered};
pub use disk::{
    CopyFinding, Disk, DiskCounters, DiskEvent, DiskOptions, DiskPiece, DiskSpec, DiskState,
    DiskStatus, ExaminedCopy, FolderChoice, ListCursor, ListError, ListedPage, OnDiskEvent,
    OpenError, OpenedDisk, Outgoing, ReadError, VoidCopy, WriteError,
};
pub use source::ImageSource;
pub use stage::{StageHold, StagedBytes};
pub use storage_key::{StorageKey, StorageKeyError};
