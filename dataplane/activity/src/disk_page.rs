//! A disk of this process in its page. Invariant: one that goes leaves no trace there.

use crate::disk_cells::DiskPlaceCells;
use crate::disk_reading::DiskReading;
use crate::page::{Page, page};

/// The place of a disk in the page of this process. Dropped, it shows none.
#[derive(Debug)]
pub struct DiskPage {
    page: &'static Page,
    index: usize,
    cells: &'static DiskPlaceCells,
}

impl DiskPage {
    /// A place in the page of this process, if there is one.
    pub fn new() -> Option<Self> {
        page().and_then(Self::claim)
    }

    /// A place in a page of one's own.
    pub fn claim(page: &'static Page) -> Option<Self> {
        let (index, cells) = page.claim_disk()?;
        Some(Self { page, index, cells })
    }

    /// Shows a disk as it is now. Long texts are cut.
    pub fn show(&mut self, disk: &DiskReading) {
        self.cells.put(&disk.encode());
    }
}

impl Drop for DiskPage {
    fn drop(&mut self) {
        self.cells.clear();
        self.page.give_back_disk(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{PageDirectory, pages};
    use crate::limits::{DISK_PATH_BYTES, LATENCY_BUCKETS};

    fn disk(path: &str) -> DiskReading {
        let mut disk = DiskReading {
            path: path.to_owned(),
            state: "failed".to_owned(),
            reason: "free space".to_owned(),
            retry_ms: 7,
            capacity_bytes: 9,
            ..DiskReading::default()
        };
        (disk.writes.sum_ns, disk.writes.buckets[LATENCY_BUCKETS - 1]) = (5, 3);
        disk
    }

    #[test]
    fn disks_are_shown_until_they_go_and_their_places_are_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let read = || pages(&directory)[0].disks().unwrap();
        let (mut one, mut other) = (DiskPage::claim(page).unwrap(), DiskPage::claim(page).unwrap());
        assert_eq!(read(), []);
        one.show(&disk("/a"));
        other.show(&disk("/b"));
        assert_eq!(read(), [disk("/a"), disk("/b")]);
        other.show(&DiskReading { state: "healthy".to_owned(), ..disk("/b") });
        assert_eq!(read()[1].state, "healthy");
        drop(one);
        assert_eq!(read().len(), 1);
        let mut again = DiskPage::claim(page).unwrap();
        let long = format!("/{}", "\u{e9}".repeat(DISK_PATH_BYTES));
        again.show(&disk(&long));
        assert_eq!(read().len(), 2);
        assert!(long.starts_with(&read()[0].path) && read()[0].path.len() > DISK_PATH_BYTES - 3);
    }
}
