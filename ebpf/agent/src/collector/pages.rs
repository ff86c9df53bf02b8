//! The pages that lie on this host. Invariant: the page of a process that has ended is read once
//! more before it is removed, and removed only after every agent of the host had time for that.

use crate::limits::ENDED_PAGE_KEPT;
use perigee_activity::{PageDirectory, PageListing};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Instant;

/// The folder of pages, as this agent sees it.
#[derive(Debug)]
pub(super) struct Pages {
    directory: PageDirectory,
    /// Those of ended processes that were read, and since when.
    ended: BTreeMap<OsString, Instant>,
    /// Whether the last try to tell processes of this agent failed, which is logged once.
    is_silent: bool,
    looks_only: bool,
}

impl Pages {
    /// With `looks_only` nothing is made or removed there.
    pub(super) fn new(directory: PageDirectory, looks_only: bool) -> Self {
        Self { directory, ended: BTreeMap::new(), is_silent: false, looks_only }
    }

    /// What lies there now; pages of ended processes are in it once.
    pub(super) fn read(&mut self) -> PageListing {
        self.note_reader();
        let now = Instant::now();
        for (name, since) in &self.ended {
            if now.duration_since(*since) >= ENDED_PAGE_KEPT {
                self.directory.remove_ended(name);
            }
        }
        let listing = PageListing::read(&self.directory, |name| self.ended.contains_key(name));
        self.ended.retain(|name, _| listing.holds(name));
        let names = listing.ended.iter().filter_map(|page| page.path().file_name());
        self.ended.extend(names.map(|name| (name.to_owned(), now)));
        listing
    }

    fn note_reader(&mut self) {
        if self.looks_only {
            return;
        }
        let noted = self.directory.note_reader();
        if let Err(error) = &noted
            && !self.is_silent
            && self.directory.path().is_dir()
        {
            let folder = self.directory.path().display();
            tracing::warn!(%folder, %error, "The folder of pages cannot be written; the last second of processes that end is not counted");
        }
        self.is_silent = noted.is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_activity::Page;

    #[test]
    fn the_page_of_an_ended_process_is_listed_once_and_stays_for_other_agents() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let (mut one, mut other) =
            (Pages::new(directory.clone(), false), Pages::new(directory.clone(), false));
        let page = Page::create(&directory).unwrap();
        let path = page.path().unwrap().to_owned();
        assert_eq!((one.read().living.len(), one.read().ended.len()), (1, 0));
        drop(page);
        assert_eq!((one.read().ended.len(), one.read().ended.len()), (1, 0));
        assert_eq!(other.read().ended.len(), 1);
        assert!(path.exists());
        let long_ago = Instant::now().checked_sub(ENDED_PAGE_KEPT).unwrap();
        one.ended.values_mut().for_each(|since| *since = long_ago);
        let name = path.file_name().unwrap();
        assert!(!one.read().holds(name) && !path.exists());
        assert!(one.ended.is_empty());
    }

    #[test]
    fn who_only_looks_makes_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        let read = |looks_only| Pages::new(PageDirectory::new(&path), looks_only).read();
        assert!(read(true).living.is_empty() && !path.exists());
        read(false);
        assert_eq!(path.exists(), nix::unistd::geteuid().is_root());
    }
}
