//! The folder where processes of a host leave their pages.

use crate::layout::MAGIC;
use crate::limits::{FILES_MAX, FILES_SWEPT, PAGES_MAX};
use crate::page::PageError;
use crate::reader::PageReader;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

const DEFAULT: &str = "/dev/shm/perigee";
/// Names the folder; `off` keeps pages private.
const VARIABLE: &str = "PERIGEE_ACTIVITY_DIR";

/// A folder of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory(PathBuf);

impl Directory {
    /// A folder, created when a page is.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// `PERIGEE_ACTIVITY_DIR`, else `/dev/shm/perigee`; `None` when the variable says `off`.
    pub fn from_environment() -> Option<Self> {
        match std::env::var_os(VARIABLE) {
            Some(value) if value == "off" => None,
            Some(value) if !value.is_empty() => Some(Self(value.into())),
            _ => Some(Self(DEFAULT.into())),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A new file of `bytes` zero bytes, locked for the life of the process.
    pub(crate) fn create_page(&self, bytes: u64) -> Result<(Flock<File>, PathBuf), PageError> {
        let failed = |error| PageError::File {
            path: self.0.clone(),
            error,
        };
        self.create().map_err(failed)?;
        self.sweep();
        let name = unique_name();
        let (hidden, path) = (self.0.join(format!(".{name}")), self.0.join(name));
        let file = create_locked(&hidden, bytes).map_err(|error| {
            let _ = std::fs::remove_file(&hidden);
            failed(error)
        })?;
        // A reader removes what nobody holds a lock on, so the file gets its name after its lock.
        std::fs::rename(&hidden, &path).map_err(failed)?;
        Ok((file, path))
    }

    /// Removes what processes of this user left that could not clean up. On a host without an agent nobody else does, and an
    /// agent of another user may not.
    fn sweep(&self) {
        let own = geteuid().as_raw();
        let Some(folder) = Folder::open(self) else {
            return;
        };
        for name in folder.names().take(FILES_SWEPT) {
            drop(folder.open_living(&name, |file| file.uid() == own));
        }
    }

    /// Every user may leave pages, nobody may remove those of others.
    fn create(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o1777).create(&self.0) {
            Ok(()) => std::fs::set_permissions(&self.0, Permissions::from_mode(0o1777)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Process number and start time, and a count: unique among all containers that share the folder.
fn unique_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let started_ns = since_epoch.unwrap_or_default().as_nanos();
    format!("{}-{number}-{started_ns:x}", std::process::id())
}

fn create_locked(path: &Path, bytes: u64) -> io::Result<Flock<File>> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(path)?;
    // Whatever the umask: others may read.
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.set_len(bytes)?;
    Flock::lock(file, FlockArg::LockSharedNonblock).map_err(|(_, error)| error.into())
}

/// The pages of all living processes. Leftovers of dead ones are removed where that is allowed.
pub fn pages(directory: &Directory) -> Vec<PageReader> {
    let Some(folder) = Folder::open(directory) else {
        return Vec::new();
    };
    let names = folder.names().take(FILES_MAX);
    let living = names.filter_map(|name| folder.open_living(&name, |_| true));
    living.take(PAGES_MAX).collect()
}

/// A folder that was opened. Whoever owns the place where it lies may put another one there meanwhile: what is looked at
/// and what is removed then are still files of the same folder.
struct Folder {
    /// Its name among this process's descriptors.
    path: PathBuf,
    shown: PathBuf,
    _open: File,
}

impl Folder {
    fn open(directory: &Directory) -> Option<Self> {
        let mut options = OpenOptions::new();
        let options = options
            .read(true)
            .custom_flags(nix::libc::O_DIRECTORY | nix::libc::O_NONBLOCK);
        let open = options.open(&directory.0).ok()?;
        Some(Self {
            path: format!("/proc/self/fd/{}", open.as_raw_fd()).into(),
            shown: directory.0.clone(),
            _open: open,
        })
    }

    /// Everything in it that has its final name.
    fn names(&self) -> impl Iterator<Item = OsString> + use<> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter(|name| !name.as_encoded_bytes().starts_with(b"."))
    }

    /// The page of a living process. A leftover is removed, if it `may` be.
    fn open_living(&self, name: &OsStr, may: impl Fn(&Metadata) -> bool) -> Option<PageReader> {
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        let options = options
            .read(true)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
        let file = options.open(&path).ok()?;
        if !file
            .metadata()
            .is_ok_and(|file| file.is_file() && may(&file))
        {
            return None;
        }
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => {
                // Nobody holds it: its process is gone. What else lies in a folder that somebody named is not ours to
                // remove.
                if is_page(&file) {
                    let _ = std::fs::remove_file(path);
                }
                None
            }
            Err((file, _)) => PageReader::open(file, &self.shown.join(name)).ok(),
        }
    }
}

fn is_page(file: &File) -> bool {
    let mut magic = [0; 8];
    file.read_exact_at(&mut magic, 0).is_ok() && u64::from_ne_bytes(magic) == MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Direction, Key, Route};
    use crate::page::Page;

    fn page_in(directory: &Directory) -> &'static Page {
        Box::leak(Box::new(Page::create(directory).unwrap()))
    }

    #[test]
    fn others_read_what_a_process_records() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path().join("pages"));
        let key = Key::new("mlx5_0", Route::Rdma, Direction::Write, 3);
        let slot = page_in(&directory).claim(key).unwrap();
        slot.record(4096, 1500, 20);
        slot.record_failure();
        slot.set_depth(2);
        let found = pages(&directory);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid(), std::process::id());
        assert!(!found[0].program().is_empty());
        let own = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
        assert_eq!(found[0].network(), Some(own));
        let slots = found[0].slots().unwrap();
        assert_eq!(slots.len(), 1);
        let reading = &slots[0];
        assert_eq!(
            (reading.key, reading.operations, reading.bytes),
            (key, 1, 4096)
        );
        assert_eq!((reading.latency_ns, reading.queue_ns), (1500, 20));
        assert_eq!((reading.errors, reading.depth), (1, 2));
        assert_eq!(reading.buckets[10], 1);
    }

    #[test]
    fn leftovers_of_dead_processes_vanish() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path());
        drop(Page::create(&directory).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(pages(&directory).is_empty());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_new_page_sweeps_what_earlier_processes_of_its_user_left_and_nothing_that_lives() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path());
        let living = page_in(&directory).path().unwrap();
        drop(Page::create(&directory).unwrap());
        let foreign = folder.path().join("foreign");
        std::fs::write(&foreign, MAGIC.to_ne_bytes()).unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(&foreign, Some(65_534), None).unwrap();
        }
        let new = page_in(&directory).path().unwrap();
        let names = Folder::open(&directory).unwrap().names();
        let mut left: Vec<_> = names.map(|name| folder.path().join(name)).collect();
        left.retain(|path| *path != foreign);
        left.sort();
        let mut expected = [living, new].map(Path::to_owned);
        expected.sort();
        assert_eq!(left, expected);
        assert_eq!(foreign.exists(), geteuid().is_root());
    }

    #[test]
    fn leftovers_that_cannot_be_removed_hide_no_living_process() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path());
        // Folders take the places of files that a reader without rights may not remove.
        for number in 0..=PAGES_MAX {
            std::fs::create_dir(folder.path().join(format!("{number}"))).unwrap();
        }
        // Whichever end of the folder a listing begins with.
        let first = page_in(&directory).path().unwrap();
        let found = pages(&directory);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path(), first);
    }

    #[test]
    fn files_that_are_no_pages_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let strangers = [("empty", 0), ("short", 10), ("zeros", 4 << 20)];
        for (name, bytes) in strangers {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_len(bytes).unwrap();
        }
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        let directory = Directory::new(folder.path());
        let living = page_in(&directory);
        let locked = File::open(folder.path().join("zeros")).unwrap();
        let _held = Flock::lock(locked, FlockArg::LockSharedNonblock).unwrap();
        let found: Vec<_> = pages(&directory)
            .iter()
            .map(|p| p.path().to_owned())
            .collect();
        assert_eq!(found, [living.path().unwrap()]);
        for (name, _) in strangers {
            assert!(folder.path().join(name).exists(), "{name} is not ours");
        }
    }

    #[test]
    fn a_folder_that_is_exchanged_meanwhile_loses_nothing() {
        let place = tempfile::tempdir().unwrap();
        let (usual, other) = (place.path().join("usual"), place.path().join("other"));
        for folder in [&usual, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("left"), MAGIC.to_ne_bytes()).unwrap();
        }
        let folder = Folder::open(&Directory::new(&usual)).unwrap();
        std::fs::rename(&usual, place.path().join("before")).unwrap();
        std::os::unix::fs::symlink(&other, &usual).unwrap();
        assert!(folder.open_living("left".as_ref(), |_| true).is_none());
        assert!(other.join("left").exists());
        assert!(!place.path().join("before/left").exists());
    }
}
