//! The place where processes of a host leave their pages.

use crate::error::PageError;
use crate::folder::{OpenFolder, is_near};
use crate::limits::{ENDED_PAGES_MAX, FILES_MAX, FILES_SWEPT, PAGES_MAX};
use crate::reader::PageReader;
use nix::fcntl::Flock;
use nix::unistd::geteuid;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
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
        sweep(&folder, folder.has_reader());
        let name = unique_name();
        let file = folder.create_file(&name, bytes).or_else(|error| match error.kind() {
            io::ErrorKind::StorageFull => {
                sweep(&folder, false);
                folder.create_file(&name, bytes)
            }
            _ => Err(error),
        });
        let file = file.map_err(failed)?;
        Ok((file, self.0.join(name)))
    }
}

/// Removes what ended processes of this user left; if a reader is near, the newest stay a while. On
/// a host without an agent nothing else does, and an agent of another user may not.
fn sweep(folder: &OpenFolder, has_reader: bool) {
    let ended = |name: OsString| Some((folder.ended_at(&name, geteuid())?, name));
    let mut ended: Vec<_> = folder.names().take(FILES_SWEPT).filter_map(ended).collect();
    ended.sort_unstable();
    let too_many = ended.len().saturating_sub(ENDED_PAGES_MAX);
    for (place, (time, name)) in ended.iter().enumerate() {
        if !has_reader || place < too_many || !is_near(*time) {
            folder.remove_ended(name);
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

/// The pages of all living processes.
pub fn pages(directory: &PageDirectory) -> Vec<PageReader> {
    PageListing::read(directory, |_| false).living
}

/// The pages of a folder at one moment.
#[derive(Debug, Default)]
pub struct PageListing {
    /// Pages of living processes.
    pub living: Vec<PageReader>,
    /// Pages of processes that have ended, without those that the reader knows: they change no
    /// more.
    pub ended: Vec<PageReader>,
    names: BTreeSet<OsString>,
}

impl PageListing {
    /// Looks into a folder. A page that `is_known`, by its name, to be of an ended process is not
    /// opened again.
    pub fn read(directory: &PageDirectory, is_known: impl Fn(&OsStr) -> bool) -> Self {
        let Ok(folder) = OpenFolder::open(&directory.0) else {
            return Self::default();
        };
        let mut listing = Self::default();
        listing.names.extend(folder.names().take(FILES_MAX));
        let unknown = listing.names.iter().filter(|name| !is_known(name));
        for page in unknown.filter_map(|name| folder.open_page(name)) {
            let list = if page.is_ended() { &mut listing.ended } else { &mut listing.living };
            if list.len() < PAGES_MAX {
                list.push(page);
            }
        }
        listing
    }

    /// All pages that were opened.
    pub fn opened(&self) -> impl Iterator<Item = &PageReader> {
        self.living.iter().chain(&self.ended)
    }

    /// Whether a file of this name lies in the folder.
    pub fn holds(&self, name: &OsStr) -> bool {
        self.names.contains(name)
    }
}

impl PageDirectory {
    /// Tells processes that a reader looks at their pages: those that end in the next minute leave
    /// theirs for it. Root makes the folder if it is not there; one made by another user would keep
    /// the rest out.
    ///
    /// # Errors
    /// The folder is not there, or cannot be written.
    pub fn note_reader(&self) -> io::Result<()> {
        let folder = match geteuid().is_root() {
            true => OpenFolder::create(&self.0)?,
            false => OpenFolder::open(&self.0)?,
        };
        folder.note_reader()
    }

    /// Removes the page of a process that has ended, where that is allowed.
    pub fn remove_ended(&self, name: &OsStr) {
        if let Ok(folder) = OpenFolder::open(&self.0) {
            folder.remove_ended(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{MAGIC, SlotKey};
    use crate::page::Page;
    use crate::slot::Slot;
    use crate::stages::Stages;
    use nix::fcntl::FlockArg;
    use perigee_schemas::{Direction, Route};
    use std::os::unix::fs::MetadataExt;

    fn page_in(directory: &PageDirectory) -> &'static Page {
        Box::leak(Box::new(Page::create(directory).unwrap()))
    }

    #[test]
    fn others_read_what_a_process_records() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path().join("pages"));
        let key = SlotKey::new("mlx5_0", Route::Rdma, Direction::Write, 3);
        let slot = Slot::claim(page_in(&directory), key).unwrap();
        slot.record(4096, &Stages::whole(1500, 20));
        slot.record_failure();
        slot.set_depth(2);
        let found = pages(&directory);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid(), std::process::id());
        assert!(!found[0].program().is_empty());
        let own = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
        assert_eq!(found[0].network(), Some(own));
        assert_eq!(found[0].group(), crate::group::control_group());
        let slots = found[0].slots().unwrap();
        assert_eq!(slots.len(), 1);
        let reading = &slots[0];
        assert_eq!((reading.key, reading.operations, reading.bytes), (key, 1, 4096));
        assert_eq!((reading.latency_ns, reading.queue_ns), (1500, 20));
        assert_eq!((reading.errors, reading.depth), (1, 2));
        assert_eq!(reading.buckets[10], 1);
    }

    #[test]
    fn the_page_of_an_ended_process_is_read_until_it_is_removed_and_opened_once() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let page = Page::create(&directory).unwrap();
        let path = page.path().unwrap().to_owned();
        let name = path.file_name().unwrap();
        directory.remove_ended(name);
        assert!(path.exists(), "its process lives");
        drop(page);
        let listing = PageListing::read(&directory, |_| false);
        assert_eq!((listing.living.len(), listing.ended.len()), (0, 1));
        assert!(listing.ended[0].is_ended() && listing.ended[0].slots().unwrap().is_empty());
        let again = PageListing::read(&directory, |known| known == name);
        assert!(again.holds(name) && again.opened().next().is_none());
        directory.remove_ended(name);
        assert!(!PageListing::read(&directory, |_| false).holds(name));
    }

    #[test]
    fn a_new_page_leaves_those_of_ended_processes_to_a_reader_up_to_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        directory.note_reader().unwrap();
        directory.note_reader().unwrap();
        for _ in 0..ENDED_PAGES_MAX + 2 {
            drop(Page::create(&directory).unwrap());
        }
        let ended = PageListing::read(&directory, |_| false).ended.len();
        assert_eq!(ended, ENDED_PAGES_MAX + 1, "and the one made last");
        let long_ago = SystemTime::now() - 2 * crate::limits::READER_NEAR;
        let oldest = PageListing::read(&directory, |_| false).ended.remove(0).path().to_owned();
        File::open(&oldest).unwrap().set_modified(long_ago).unwrap();
        page_in(&directory);
        assert!(!oldest.exists(), "no reader needs that long");
        assert_eq!(PageListing::read(&directory, |_| false).ended.len(), ENDED_PAGES_MAX);
        File::open(folder.path().join(".reader")).unwrap().set_modified(long_ago).unwrap();
        page_in(&directory);
        assert!(PageListing::read(&directory, |_| false).ended.is_empty(), "no reader is near");
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
        let foreign = [("empty", 0), ("short", 10), ("zeros", 4 << 20)];
        for (name, bytes) in foreign {
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
        for (name, _) in foreign {
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
