//! Files of a host as a shard sees them. Invariant: memory of a read or write belongs to it until
//! the kernel has answered, so a wait that is given up frees nothing that a disk still fills.

use perigee_reactor::{Message, RingRegistration};
use std::future::Future;
use std::io;
use std::path::Path;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// It is made if it is not there.
    pub create: bool,
    /// Its bytes go past the page cache: offsets, lengths and memory must be whole blocks of 4 KiB.
    pub direct: bool,
}

/// The files of a host. Calls on names may take as long as a disk does; they keep no shard waiting.
pub trait Files: Clone + 'static {
    /// An open file.
    type File: File;

    /// Opens a file for reading and writing.
    fn open(
        &self,
        path: &Path,
        options: FileOptions,
    ) -> impl Future<Output = io::Result<Self::File>>;

    /// Makes a folder and those above it, as far as they are missing.
    fn create_folder(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Makes the names in a folder safe from a loss of power.
    fn sync_folder(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// The names in a folder, in their order.
    fn list(&self, path: &Path) -> impl Future<Output = io::Result<Vec<String>>>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Bytes that can be written to the file system of a folder.
    fn free_bytes(&self, path: &Path) -> impl Future<Output = io::Result<u64>>;

    /// Registers memory, one piece, with what carries out operations: those that lie in it wholly
    /// need less of a processor. It is locked as long as the answer is kept; `None`: there is no
    /// such thing here.
    ///
    /// # Errors
    /// The kernel refuses, above all beyond the limit of locked memory.
    fn register(&self, memory: Message) -> io::Result<Option<RingRegistration>>;

    /// Whether files in a folder can be opened past the page cache, found out by one trial.
    fn takes_direct(&self, path: &Path) -> impl Future<Output = io::Result<bool>>;

    /// Why processes on different hosts may both get the lock of a file in a folder; none if they
    /// cannot.
    fn lock_refusal(&self, path: &Path) -> impl Future<Output = io::Result<Option<String>>>;
}

/// An open file. Clones share it; it is closed with the last one and its last operation.
pub trait File: Clone + 'static {
    /// Fills a message from an offset on. Returns how many bytes the file had for it.
    fn read_at(&self, message: Message, offset: u64) -> impl Future<Output = io::Result<usize>>;

    /// Writes the whole message at an offset or fails.
    fn write_at(&self, message: Message, offset: u64) -> impl Future<Output = io::Result<()>>;

    /// Makes what was written before this call safe from a loss of power.
    fn sync(&self) -> impl Future<Output = io::Result<()>>;

    /// Sees to room for so many bytes from the start of the file, which becomes at least as long.
    fn allocate(&self, bytes: u64) -> impl Future<Output = io::Result<()>>;

    /// Takes the lock that one open file at a time can have; false if another one has it. It ends
    /// with the file or its process.
    ///
    /// # Errors
    /// The file system has no locks.
    fn try_lock(&self) -> impl Future<Output = io::Result<bool>>;
}
