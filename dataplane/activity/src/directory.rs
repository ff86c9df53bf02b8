//! The place where processes of a host leave their pages.

use crate::error::PageError;
use crate::folder::OpenFolder;
use crate::limits::{FILES_MAX, FILES_SWEPT, PAGES_MAX};
use crate::reader::PageReader;
use nix::fcntl::Flock;
use nix::unistd::geteuid;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

const DEFAULT: &str = "/dev/shm/perigee";
/// Names the folder; `off` keeps pages private.
const VARIABLE: &str = "PERIGEE_ACTIVITY_DIR";

/// A folder of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageDirectory(PathBuf);

impl PageDirectory {
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

    /// A new file of `bytes` zero bytes, all of them allocated, locked for the life of the process.
    pub(crate) fn create_page(&self, bytes: u64) -> Result<(Flock<File>, PathBuf), PageError> {
        let failed = |error| PageError::File { path: self.0.clone(), error };
        let folder = OpenFolder::create(&self.0).map_err(failed)?;
        let facts = folder.facts().map_err(failed)?;
        if !facts.is_safe_for(geteuid()) {
            return Err(PageError::Folder {
                path: self.0.clone(),
                owner: facts.owner,
                mode: facts.mode,
            });
        }
        sweep(&folder);
        let name = unique_name();
        let file = folder.create_file(&name, bytes).map_err(failed)?;
        Ok((file, self.0.join(name)))
    }
}

/// Removes what processes of this user left that could not clean up. On a host without an agent
/// nothing else does, and an agent of another user may not.
fn sweep(folder: &OpenFolder) {
    let own = geteuid().as_raw();
    for name in folder.names().take(FILES_SWEPT) {
        drop(folder.open_living(&name, |file| file.uid() == own));
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

/// The pages of all living processes. Leftovers of dead ones are removed where that is allowed.
pub fn pages(directory: &PageDirectory) -> Vec<PageReader> {
    let Ok(folder) = OpenFolder::open(&directory.0) else {
        return Vec::new();
    };
    let names = folder.names().take(FILES_MAX);
    let living = names.filter_map(|name| folder.open_living(&name, |_| true));
    living.take(PAGES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{MAGIC, SlotKey};
    use crate::page::Page;
    use crate::slot::Slot;
    use nix::fcntl::FlockArg;
    use perigee_schemas::{Direction, Route};

    fn page_in(directory: &PageDirectory) -> &'static Page {
        Box::leak(Box::new(Page::create(directory).unwrap()))
    }

    #[test]
    fn others_read_what_a_process_records() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path().join("pages"));
        let key = SlotKey::new("mlx5_0", Route::Rdma, Direction::Write, 3);
        let slot = Slot::claim(page_in(&directory), key).unwrap();
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
        assert_eq!((reading.key, reading.operations, reading.bytes), (key, 1, 4096));
        assert_eq!((reading.latency_ns, reading.queue_ns), (1500, 20));
        assert_eq!((reading.errors, reading.depth), (1, 2));
        assert_eq!(reading.buckets[10], 1);
    }

    #[test]
    fn leftovers_of_dead_processes_vanish() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        drop(Page::create(&directory).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(pages(&directory).is_empty());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_new_page_sweeps_what_earlier_processes_of_its_user_left_and_nothing_that_lives() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let living = page_in(&directory).path().unwrap();
        drop(Page::create(&directory).unwrap());
        let foreign = folder.path().join("foreign");
        std::fs::write(&foreign, MAGIC.to_ne_bytes()).unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(&foreign, Some(65_534), None).unwrap();
        }
        let new = page_in(&directory).path().unwrap();
        let names = OpenFolder::open(folder.path()).unwrap().names();
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
        let directory = PageDirectory::new(folder.path());
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
        let directory = PageDirectory::new(folder.path());
        let living = page_in(&directory);
        let locked = File::open(folder.path().join("zeros")).unwrap();
        let _held = Flock::lock(locked, FlockArg::LockSharedNonblock).unwrap();
        let found: Vec<_> = pages(&directory).iter().map(|p| p.path().to_owned()).collect();
        assert_eq!(found, [living.path().unwrap()]);
        for (name, _) in strangers {
            assert!(folder.path().join(name).exists(), "{name} is not ours");
        }
    }

    #[test]
    fn a_symbolic_link_in_place_of_the_folder_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (named, target) = (place.path().join("named"), place.path().join("target"));
        std::fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &named).unwrap();
        assert!(Page::create(&PageDirectory::new(&named)).is_err());
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_of_another_user_gets_no_page() {
        if !geteuid().is_root() {
            eprintln!("SKIP: only root can give a folder away");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("pages");
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::chown(&folder, Some(65_534), None).unwrap();
        let refused = Page::create(&PageDirectory::new(&folder)).unwrap_err();
        assert!(refused.to_string().contains("user 65534"), "{refused}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }
}
