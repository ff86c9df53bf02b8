//! Files in production: operations on the shard's reactor, calls on names on a thread of their own.
#![expect(unsafe_code, reason = "it asks the kernel for a lock")]

use crate::call::Call;
use crate::files::{File, FileOptions, Files};
use crate::lock_reach::lock_refusal;
use crate::stream::ShardEnvironment;
use perigee_reactor::{
    Completion, FileHandle, FileOperation, FileWork, Finished, Message, Operation, RingRegistration,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK_BYTES: usize = 4096;

/// The files of this host.
#[derive(Clone, Debug)]
pub struct ShardFiles {
    environment: ShardEnvironment,
}

/// An open file of a shard.
#[derive(Clone, Debug)]
pub struct ShardFile {
    files: ShardFiles,
    handle: FileHandle,
}

impl ShardFiles {
    pub(crate) fn new(environment: &ShardEnvironment) -> Self {
        Self { environment: environment.clone() }
    }

    /// Runs calls that wait on a thread of their own: a disk that hangs keeps that thread only.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (call, reply) = Call::new(&self.environment);
        let thread = std::thread::Builder::new().name("perigee-file".to_owned());
        thread.spawn(move || reply.give(work()))?;
        let gone = || io::Error::other("The thread that was asked has ended");
        call.await.unwrap_or_else(|| Err(gone()))
    }
}

impl Files for ShardFiles {
    type File = ShardFile;

    async fn open(&self, path: &Path, options: FileOptions) -> io::Result<ShardFile> {
        let path = path.to_owned();
        let opened = self.aside(move || {
            let flags = if options.direct { libc::O_DIRECT } else { 0 };
            let mut file = std::fs::OpenOptions::new();
            file.read(true).write(true).create(options.create).custom_flags(flags);
            Ok(OwnedFd::from(file.open(path)?))
        });
        let handle = FileHandle::new(opened.await?);
        Ok(ShardFile { files: self.clone(), handle })
    }

    async fn create_folder(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.aside(move || std::fs::create_dir_all(path)).await
    }

    async fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.aside(move || std::fs::File::open(path)?.sync_all()).await
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let path = path.to_owned();
        self.aside(move || {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(path)? {
                // A name that is no text is none of ours.
                names.extend(entry?.file_name().into_string());
            }
            names.sort_unstable();
            Ok(names)
        })
        .await
    }

    async fn remove(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.aside(move || std::fs::remove_file(path)).await
    }

    async fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let path = path.to_owned();
        self.aside(move || {
            let found = nix::sys::statvfs::statvfs(&path)?;
            Ok(found.blocks_available() * found.fragment_size())
        })
        .await
    }

    fn register(&self, memory: Message) -> io::Result<Option<RingRegistration>> {
        self.environment.reactor.register(memory)
    }

    async fn takes_direct(&self, path: &Path) -> io::Result<bool> {
        let path = path.to_owned();
        self.aside(move || try_direct(&path)).await
    }

    async fn lock_refusal(&self, path: &Path) -> io::Result<Option<String>> {
        let path = path.to_owned();
        self.aside(move || lock_refusal(&path)).await
    }
}

impl ShardFile {
    fn begin(&self, work: FileWork) -> Completion {
        let operation = FileOperation { file: self.handle.clone(), work };
        Completion::begin(&self.files.environment.reactor, Operation::File(operation))
    }
}

impl File for ShardFile {
    async fn read_at(&self, message: Message, offset: u64) -> io::Result<usize> {
        let wanted = message.bytes();
        let left = left(self.begin(FileWork::Read(Box::new(message), offset)).await)?;
        Ok(wanted - left)
    }

    async fn write_at(&self, message: Message, offset: u64) -> io::Result<()> {
        match left(self.begin(FileWork::Write(Box::new(message), offset)).await)? {
            0 => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    async fn sync(&self) -> io::Result<()> {
        self.begin(FileWork::Sync).await.result.map(drop)
    }

    async fn allocate(&self, bytes: u64) -> io::Result<()> {
        let allocated = self.begin(FileWork::Allocate(bytes)).await.result;
        match allocated {
            // A file system without reservations still has to have the length.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                let file = std::fs::File::from(self.handle.try_clone()?);
                let lengthen = move || {
                    if file.metadata()?.len() < bytes { file.set_len(bytes) } else { Ok(()) }
                };
                self.files.aside(lengthen).await
            }
            other => other.map(drop),
        }
    }

    async fn try_lock(&self) -> io::Result<bool> {
        // The server of a shared file system may be asked. A copy of the descriptor has the lock of
        // the file that both are open for.
        let file = self.handle.try_clone()?;
        self.files.aside(move || try_lock(&file)).await
    }
}

fn try_lock(file: &OwnedFd) -> io::Result<bool> {
    // SAFETY: the descriptor is open for as long as this call.
    let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    match locked {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            error => Err(error),
        },
    }
}

/// Bytes of the message of a read or write that were not moved.
fn left(finished: Finished) -> io::Result<usize> {
    finished.result?;
    match finished.operation {
        Operation::File(FileOperation {
            work: FileWork::Read(message, _) | FileWork::Write(message, _),
            ..
        }) => Ok(message.bytes()),
        _ => Ok(0),
    }
}

/// Writes and reads a block past the page cache. Some file systems refuse that when the file is
/// opened, others at the first operation.
fn try_direct(folder: &Path) -> io::Result<bool> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".perigee-trial-{}-{number}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    drop(options.open(&path)?);
    let direct = options.create_new(false).custom_flags(libc::O_DIRECT).open(&path);
    let tried = direct.and_then(|file| {
        with_block(|block| {
            block.fill(0x5a);
            file.write_all_at(block, 0)?;
            block.fill(0);
            file.read_exact_at(block, 0)?;
            Ok(block.iter().all(|byte| *byte == 0x5a))
        })
    });
    std::fs::remove_file(&path)?;
    match tried {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        other => other,
    }
}

fn with_block<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut memory = vec![0; 2 * BLOCK_BYTES];
    let start = memory.as_ptr().align_offset(BLOCK_BYTES);
    work(&mut memory[start..start + BLOCK_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, Shard, ShardOptions, at_most};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);

    /// Memory that goes past the page cache, kept by whatever uses it.
    #[derive(Clone)]
    struct Blocks(Arc<Mutex<Vec<u8>>>, usize);

    impl Blocks {
        fn new(bytes: usize, fill: u8) -> Self {
            let mut memory = vec![fill; bytes + BLOCK_BYTES];
            let start = memory.as_mut_ptr().align_offset(BLOCK_BYTES);
            Self(Arc::new(Mutex::new(memory)), start)
        }

        fn message(&self, from: usize, bytes: usize) -> Message {
            let mut message = Message::new();
            let first = self.0.lock().unwrap().as_mut_ptr().wrapping_add(self.1 + from);
            // SAFETY: the range lies in the memory, which the message keeps.
            unsafe { message.push_borrowed(first, bytes) };
            message.guard(self.0.clone());
            message
        }

        fn byte(&self, at: usize) -> u8 {
            self.0.lock().unwrap()[self.1 + at]
        }
    }

    fn on_a_shard<F: Future<Output = ()> + 'static>(
        work: impl FnOnce(ShardEnvironment, std::path::PathBuf) -> F + Send + 'static,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let (send, ended) = std::sync::mpsc::channel();
        let shard =
            Shard::start(ShardOptions::named("test-files"), move |environment| async move {
                work(environment, path).await;
                let _ = send.send(());
            });
        ended.recv_timeout(LONG).expect("the work ends without a panic");
        shard.unwrap().join(LONG).unwrap();
    }

    #[test]
    fn what_was_written_is_read_and_a_read_ends_with_the_file() {
        on_a_shard(|environment, folder| async move {
            let files = environment.files();
            let below = folder.join("a/b");
            files.create_folder(&below).await.unwrap();
            let direct = files.takes_direct(&below).await.unwrap();
            assert!(files.list(&below).await.unwrap().is_empty(), "the trial leaves nothing");
            let path = below.join("file");
            assert!(files.open(&path, FileOptions::default()).await.is_err(), "it is not there");
            let options = FileOptions { create: true, direct };
            let file = files.open(&path, options).await.unwrap();
            file.allocate(6 * BLOCK_BYTES as u64).await.unwrap();
            let (first, second) = (Blocks::new(BLOCK_BYTES, 1), Blocks::new(2 * BLOCK_BYTES, 2));
            let mut both = first.message(0, BLOCK_BYTES);
            both.append(second.message(0, 2 * BLOCK_BYTES));
            file.write_at(both, BLOCK_BYTES as u64).await.unwrap();
            file.sync().await.unwrap();
            let found = Blocks::new(8 * BLOCK_BYTES, 9);
            let whole = found.message(0, 8 * BLOCK_BYTES);
            assert_eq!(file.read_at(whole, 0).await.unwrap(), 6 * BLOCK_BYTES);
            let starts = (0..6).map(|block| found.byte(block * BLOCK_BYTES));
            assert_eq!(starts.collect::<Vec<_>>(), [0, 1, 2, 2, 0, 0]);
            assert_eq!(files.list(&below).await.unwrap(), ["file"]);
            assert!(files.free_bytes(&below).await.unwrap() > 0);
            files.sync_folder(&below).await.unwrap();
            files.remove(&path).await.unwrap();
            assert!(files.list(&below).await.unwrap().is_empty());
        });
    }

    #[test]
    fn a_lock_is_had_by_one_open_file_until_it_is_closed() {
        on_a_shard(|environment, folder| async move {
            let (files, path) = (environment.files(), folder.join("lock"));
            let options = FileOptions { create: true, direct: false };
            let first = files.open(&path, options).await.unwrap();
            let second = files.open(&path, options).await.unwrap();
            assert!(first.try_lock().await.unwrap());
            assert!(!second.try_lock().await.unwrap());
            drop(first);
            assert!(second.try_lock().await.unwrap());
        });
    }

    #[test]
    fn memory_of_a_wait_that_is_given_up_is_kept_until_the_kernel_has_answered() {
        on_a_shard(|environment, folder| async move {
            let options = FileOptions { create: true, direct: false };
            let file = environment.files().open(&folder.join("file"), options).await.unwrap();
            let memory = Blocks::new(64 * BLOCK_BYTES, 7);
            let writing = file.write_at(memory.message(0, 64 * BLOCK_BYTES), 0);
            // Polled once, then dropped.
            assert!(at_most(&environment, Duration::ZERO, writing).await.is_none());
            let until_alone = async {
                while Arc::strong_count(&memory.0) > 1 {
                    environment.sleep(Duration::from_millis(1)).await;
                }
            };
            at_most(&environment, LONG, until_alone).await.expect("the write ends by itself");
            let found = Blocks::new(BLOCK_BYTES, 0);
            let last = 63 * BLOCK_BYTES as u64;
            file.read_at(found.message(0, BLOCK_BYTES), last).await.unwrap();
            assert_eq!(found.byte(BLOCK_BYTES - 1), 7, "and is whole");
        });
    }

    #[test]
    fn registered_memory_is_read_and_written_like_any_and_let_go_of() {
        on_a_shard(|environment, folder| async move {
            let files = environment.files();
            let options = FileOptions { create: true, direct: false };
            let file = files.open(&folder.join("file"), options).await.unwrap();
            let memory = Blocks::new(4 * BLOCK_BYTES, 7);
            for round in 0..3 {
                // Epoll has no such thing.
                let registration = files.register(memory.message(0, 2 * BLOCK_BYTES)).unwrap();
                let is_kept = Arc::strong_count(&memory.0) == 2;
                assert_eq!(is_kept, registration.is_some());
                for (from, blocks) in [(0, 2), (1, 1), (1, 2), (2, 2)] {
                    let (from, bytes) = (from * BLOCK_BYTES, blocks * BLOCK_BYTES);
                    memory.0.lock().unwrap().fill(round + blocks as u8);
                    file.write_at(memory.message(from, bytes), 0).await.unwrap();
                    memory.0.lock().unwrap().fill(99);
                    let read = file.read_at(memory.message(from, bytes), 0).await.unwrap();
                    assert_eq!(read, bytes);
                    let ends = [memory.byte(from), memory.byte(from + bytes - 1)];
                    assert_eq!(ends, [round + blocks as u8; 2]);
                }
                drop(registration);
                assert_eq!(Arc::strong_count(&memory.0), 1, "nothing keeps it any more");
            }
            let mut two = memory.message(0, BLOCK_BYTES);
            two.append(memory.message(2 * BLOCK_BYTES, BLOCK_BYTES));
            assert!(!matches!(files.register(two), Ok(Some(_))), "it is one piece");
        });
    }

    #[test]
    fn errors_of_the_kernel_reach_the_caller() {
        on_a_shard(|environment, _| async move {
            let options = FileOptions::default();
            let full = environment.files().open(Path::new("/dev/full"), options).await.unwrap();
            let memory = Blocks::new(BLOCK_BYTES, 1);
            let error = full.write_at(memory.message(0, BLOCK_BYTES), 0).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        });
    }
}
