//! Where a disk lies, what it may use, and what it is. Invariant: an identity stays with its
//! folder.

use super::event::OnDiskEvent;
use crate::storage_key::StorageKey;
use perigee_schemas::Identity;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Which folder of its path a disk has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FolderChoice {
    /// The first one that no other process has, a new one if there is none. One of another cluster
    /// or key is refused.
    #[default]
    FirstFree,
    /// The same in a path that many hosts have: what is not of this cluster and key is left alone.
    FirstOfOurs {
        /// Most bytes of all folders there; 0 for no bound.
        bytes_of_all: u64,
    },
    /// One that is there, as it is. Nothing is written there before an object or a void copy is.
    Found(PathBuf),
}

/// Where a disk lies and what it may use.
#[derive(Clone)]
pub struct DiskOptions {
    /// Folder of the user, in which the disk has a folder of its own.
    pub path: PathBuf,
    /// Which folder there it has.
    pub folder: FolderChoice,
    /// Most bytes of its files; 0 for nine tenths of what is free and of what it has already.
    pub capacity_bytes: u64,
    /// Disks of this process on the same file system, this one among them: each may use its part of
    /// what is free there.
    pub sharers: u64,
    /// Bytes of a segment; 0 to have them chosen. A folder that is there keeps its own.
    pub segment_bytes: u32,
    /// Cluster whose objects it keeps.
    pub cluster: String,
    /// What its objects are encrypted with; none to write them as they are. A folder that is there
    /// is opened with its own key only.
    pub key: Option<StorageKey>,
    /// Whether what is read is wanted in memory now and then: what was read last is kept for that,
    /// and its user hears of reads. May change at any time.
    pub promotes: Arc<AtomicBool>,
    /// Hears of changes.
    pub on_event: OnDiskEvent,
}

impl fmt::Debug for DiskOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DiskOptions")
            .field("path", &self.path)
            .field("capacity_bytes", &self.capacity_bytes)
            .finish_non_exhaustive()
    }
}

/// What a disk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSpec {
    /// Its identity, which stays.
    pub id: Identity,
    /// Folder that holds the superblock and the segments.
    pub folder: PathBuf,
    /// Most bytes of its segments.
    pub capacity_bytes: u64,
    /// Size of a segment of the log, 16 MiB to 1 GiB.
    pub segment_bytes: u32,
    /// The first segment that can be read.
    pub oldest: u32,
    /// Whether its files go past the page cache.
    pub direct: bool,
}
