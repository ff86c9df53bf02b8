//! Why a disk does not do what it is asked. Invariant: each error says what can be done about it,
//! or what the caller does instead.

use super::health::DiskState;
use crate::format::SuperblockError;
use crate::log::LogError;
use perigee_memory::segment::SegmentError;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a disk could not be opened. Nothing in its path was changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file system refuses.
    #[error("{path}: cannot {step}: {source}; {advice}", path = path.display(), advice = advice(source))]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        source: Arc<io::Error>,
    },
    /// A folder must be left alone.
    #[error("{folder}: {source}", folder = folder.display())]
    Superblock {
        /// Folder that the user has named for the disk.
        folder: PathBuf,
        /// Why.
        source: SuperblockError,
    },
    /// Two processes could have one folder.
    #[error("{path} cannot be shared: {reason}", path = path.display())]
    Locks {
        /// The directory.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// There is too little room for a log.
    #[error(
        "{path}: {capacity_bytes} bytes can be used, and a log needs at least {needed_bytes}: raise the limit of the \
         disk or the quota of its directory, or free space",
        path = path.display()
    )]
    TooSmall {
        /// The user's folder.
        path: PathBuf,
        /// What the setting and the free space allow.
        capacity_bytes: u64,
        /// Two segments.
        needed_bytes: u64,
    },
    /// There is no memory in which its bytes can wait.
    #[error("Memory for what is read and written cannot be had: {0}")]
    Memory(Arc<SegmentError>),
    /// The name of the cluster cannot be written down.
    #[error("The name of the cluster has {0} bytes; at most {max} fit", max = crate::limits::CLUSTER_BYTES_MAX)]
    ClusterName(usize),
}

impl OpenError {
    pub(super) fn io(path: impl Into<PathBuf>, step: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.into(), step, source: Arc::new(source) }
    }
}

/// What can be done about a file system that refuses.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "let the user of this process write there, or name another folder"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "mount a file system there that can be written to, or name another folder"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space, or name a folder on another disk"
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "make the folder and mount the disk there, or name another folder"
        }
        io::ErrorKind::WouldBlock => "another process has just taken it; start again",
        _ => "see whether the disk is well, or name another folder",
    }
}

/// Why an object was not written or a copy not made void.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Too much waits already.
    #[error("The disk has as much to write as it takes; try again later")]
    Full,
    /// It can never be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Its memory had another generation before or after it was copied.
    #[error("The object has changed while it was copied")]
    Changed,
    /// It was made void while it waited.
    #[error("The object was removed before it was written")]
    Removed,
    /// The disk takes no writes at present.
    #[error("The disk is {name}: {0}", name = .0.health.name())]
    State(DiskState),
    /// The write failed.
    #[error("The disk has not written it: {0}")]
    Io(String),
}

/// Why there is no page of a listing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// All was removed, another listing was begun, or the next page was asked for too late.
    #[error("The listing has ended; begin again")]
    Ended,
    /// The page before is being read.
    #[error("The disk still reads the page before; ask again")]
    Busy,
    /// A segment could not be read. The same page can be asked for again.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why bytes were not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The segment was used again, or another image lies there: a miss.
    #[error("The object is not on the disk any more")]
    Gone,
    /// The disk has not answered in time.
    #[error("The disk has not answered in time")]
    Late,
    /// All memory for reads is used.
    #[error("The disk has no memory for another read")]
    Crowded,
    /// The disk is out of use.
    #[error("The disk is {name}: {0}", name = .0.health.name())]
    State(DiskState),
    /// The read failed.
    #[error("The disk has not read it: {0}")]
    Io(String),
    /// Its encrypted bytes do not verify: the disk is damaged, or another hand has changed them.
    #[error("The bytes on the disk are not those that were written there")]
    Forged,
}
