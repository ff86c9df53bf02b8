//! A folder of pages that is open. The owner of its parent may replace it at any time; files
//! created, looked at and removed through this handle still belong to one folder.

use crate::layout::MAGIC;
use crate::limits::READER_NEAR;
use crate::reader::PageReader;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, openat, posix_fallocate, renameat};
use nix::libc;
use nix::sys::stat::{Mode, fchmod, futimens};
use nix::sys::time::TimeSpec;
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Every user may leave pages, no user may remove those of others.
const SHARED: u32 = 0o1777;
const STICKY: u32 = 0o1000;
const OTHERS_MAY_WRITE: u32 = 0o022;
/// Mode of the page of a living process, and of one that has ended.
const LIVING: u32 = 0o644;
const ENDED: u32 = 0o444;
/// Its time of change says when a reader was here last.
const READER: &str = ".reader";

pub(crate) struct OpenFolder {
    open: File,
    shown: PathBuf,
}

/// Who may do what in a folder.
pub(crate) struct Facts {
    pub(crate) owner: u32,
    pub(crate) mode: u32,
}

impl Facts {
    /// Whether no other user but root can exchange what `user` leaves in the folder.
    pub(crate) fn is_safe_for(&self, user: Uid) -> bool {
        let is_sticky = self.mode & STICKY != 0 || self.mode & OTHERS_MAY_WRITE == 0;
        is_sticky && (self.owner == 0 || self.owner == user.as_raw())
    }
}

impl OpenFolder {
    /// The folder at `path`, which is made if it is not there.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let is_new = match DirBuilder::new().mode(SHARED).create(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        let folder = Self::open(path)?;
        if is_new {
            // Whatever the umask.
            folder.open.set_permissions(Permissions::from_mode(SHARED))?;
        }
        Ok(folder)
    }

    /// The folder at `path`, which is not a symbolic link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let open = options.read(true).custom_flags(flags).open(path)?;
        let shown = path.to_owned();
        Ok(Self { open, shown })
    }

    pub(crate) fn facts(&self) -> io::Result<Facts> {
        let metadata = self.open.metadata()?;
        Ok(Facts { owner: metadata.uid(), mode: metadata.mode() & 0o7777 })
    }

    /// A new file of `bytes` zero bytes, locked for as long as it is open. A reader removes files
    /// without a lock, so it gets its name after its lock.
    pub(crate) fn create_file(&self, name: &str, bytes: u64) -> io::Result<Flock<File>> {
        let hidden = format!(".{name}");
        let create = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let file = openat(&self.open, hidden.as_str(), create, Mode::empty())?;
        let named = allocate_and_lock(file.into(), bytes).and_then(|file| {
            renameat(&self.open, hidden.as_str(), &self.open, name)?;
            Ok(file)
        });
        if named.is_err() {
            let _ = unlinkat(&self.open, hidden.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        named
    }

    /// All names that are final.
    pub(crate) fn names(&self) -> impl Iterator<Item = OsString> + use<> {
        let path = format!("/proc/self/fd/{}", self.open.as_raw_fd());
        let entries = std::fs::read_dir(path).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter(|name| !name.as_encoded_bytes().starts_with(b"."))
    }

    /// A page, of a living process or of one that has ended. One that has ended and that this build
    /// cannot read is removed.
    pub(crate) fn open_page(&self, name: &OsStr) -> Option<PageReader> {
        let file = self.open_file(name)?;
        let path = self.shown.join(name);
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Err((file, _)) => PageReader::open(file, &path, false).ok(),
            Ok(file) => {
                let removable = is_page(&file);
                // Without the lock again: another reader would take this one for the process.
                let page = PageReader::open(file.unlock().ok()?, &path, true).ok();
                if page.is_none() && removable {
                    let _ = unlinkat(&self.open, name, UnlinkatFlags::NoRemoveDir);
                }
                page
            }
        }
    }

    /// When a process of `user` ended that left this page, or when that was seen first; `None` for
    /// all other files.
    pub(crate) fn ended_at(&self, name: &OsStr, user: Uid) -> Option<SystemTime> {
        let file = self.open_file(name)?;
        let facts = file.metadata().ok().filter(|facts| facts.uid() == user.as_raw())?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()?;
        if !is_page(&file) {
            return None;
        }
        if facts.mode() & 0o7777 == ENDED {
            return facts.modified().ok();
        }
        mark_ended(&file).ok()?;
        Some(SystemTime::now())
    }

    /// Removes the page of a process that has ended; another file in a folder that a user named is
    /// left alone. The system may not allow it.
    pub(crate) fn remove_ended(&self, name: &OsStr) {
        let Some(file) = self.open_file(name) else {
            return;
        };
        if let Ok(file) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            && is_page(&file)
        {
            let _ = unlinkat(&self.open, name, UnlinkatFlags::NoRemoveDir);
        }
    }

    fn open_file(&self, name: &OsStr) -> Option<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.open, name, flags, Mode::empty()).ok()?);
        file.metadata().is_ok_and(|facts| facts.is_file()).then_some(file)
    }

    /// Notes that a reader was here now. The file is every user's: the next reader may be another
    /// one.
    pub(crate) fn note_reader(&self) -> io::Result<()> {
        let flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = match openat(&self.open, READER, flags, Mode::empty()) {
            Err(Errno::ENOENT) => {
                let create = flags | OFlag::O_CREAT | OFlag::O_EXCL;
                let file = openat(&self.open, READER, create, Mode::empty())?;
                // Whatever the umask.
                fchmod(&file, Mode::from_bits_truncate(0o666))?;
                file
            }
            open => open?,
        };
        // The only time that one who may write, but is not the owner, may set.
        futimens(&file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)?;
        Ok(())
    }

    /// Whether a reader was here within [`READER_NEAR`].
    pub(crate) fn has_reader(&self) -> bool {
        has_reader(Path::new(&format!("/proc/self/fd/{}", self.open.as_raw_fd())))
    }
}

/// Notes in the file itself that its process ends now: by its mode, which nothing else changes.
pub(crate) fn mark_ended(file: &File) -> io::Result<()> {
    fchmod(file, Mode::from_bits_truncate(ENDED))?;
    futimens(file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)?;
    Ok(())
}

/// Whether a reader was in the folder at `path` within [`READER_NEAR`].
pub(crate) fn has_reader(path: &Path) -> bool {
    let noted = std::fs::symlink_metadata(path.join(READER)).and_then(|facts| facts.modified());
    noted.is_ok_and(is_near)
}

/// Whether a time is at most [`READER_NEAR`] away, before or after: clocks are set.
pub(crate) fn is_near(time: SystemTime) -> bool {
    let now = SystemTime::now();
    let away = now.duration_since(time).or_else(|_| time.duration_since(now));
    away.is_ok_and(|away| away <= READER_NEAR)
}

/// Allocates all blocks of a file: a write through a mapping to a block that a full tmpfs lacks is
/// SIGBUS.
fn allocate_and_lock(file: File, bytes: u64) -> io::Result<Flock<File>> {
    // Whatever the umask: others may read.
    fchmod(&file, Mode::from_bits_truncate(LIVING))?;
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    while let Err(error) = posix_fallocate(&file, 0, length) {
        if error != Errno::EINTR {
            return Err(error.into());
        }
    }
    Flock::lock(file, FlockArg::LockSharedNonblock).map_err(|(_, error)| error.into())
}

fn is_page(file: &File) -> bool {
    let mut magic = [0; 8];
    file.read_exact_at(&mut magic, 0).is_ok() && u64::from_ne_bytes(magic) == MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_exchanged_while_open_loses_nothing() {
        let place = tempfile::tempdir().unwrap();
        let (usual, other) = (place.path().join("usual"), place.path().join("other"));
        for folder in [&usual, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("left"), MAGIC.to_ne_bytes()).unwrap();
        }
        let folder = OpenFolder::open(&usual).unwrap();
        std::fs::rename(&usual, place.path().join("before")).unwrap();
        std::os::unix::fs::symlink(&other, &usual).unwrap();
        folder.remove_ended("left".as_ref());
        assert!(other.join("left").exists());
        assert!(!place.path().join("before/left").exists());
    }

    #[test]
    fn only_a_folder_whose_files_no_other_user_can_exchange_is_safe() {
        let user = Uid::from_raw(1000);
        for (owner, mode, is_safe) in [
            (0, 0o1777, true),
            (1000, 0o1777, true),
            (1000, 0o700, true),
            (0, 0o755, true),
            (0, 0o777, false),
            (1000, 0o770, false),
            (1001, 0o1777, false),
        ] {
            assert_eq!(Facts { owner, mode }.is_safe_for(user), is_safe, "{owner} {mode:o}");
        }
    }

    #[test]
    fn all_blocks_of_a_new_file_are_allocated() {
        let place = tempfile::tempdir().unwrap();
        let folder = OpenFolder::open(place.path()).unwrap();
        let file = folder.create_file("page", 1 << 20).unwrap();
        let facts = file.metadata().unwrap();
        assert_eq!((facts.len(), facts.mode() & 0o777), (1 << 20, 0o644));
        assert!(facts.blocks() * 512 >= 1 << 20, "{} blocks", facts.blocks());
        assert!(folder.create_file("page2", u64::MAX).is_err());
        let left = std::fs::read_dir(place.path()).unwrap().count();
        assert_eq!(left, 1, "a file that cannot be allocated is removed");
    }
}
